//! What a run consists of: one job for each thing that is done about a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The place of a machine in a workflow, such as `builders/2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slot {
    group: Box<str>,
    index: u32,
}

impl Slot {
    /// A machine of a group.
    #[must_use]
    pub fn new(group: &str, index: u32) -> Self {
        let group = group.into();
        Self { group, index }
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Which of its group, from 0.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.index)
    }
}

/// Why a text is no [`Slot`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no machine of a workflow: it is a group and a number, as `builders/2`")]
pub struct BadSlot(String);

impl FromStr for Slot {
    type Err = BadSlot;

    fn from_str(text: &str) -> Result<Self, BadSlot> {
        let bad = || BadSlot(text.chars().take(64).collect());
        let (group, index) = text.split_once('/').ok_or_else(bad)?;
        let index = index.parse().map_err(|_| bad())?;
        Ok(Self::new(group, index))
    }
}

impl TryFrom<String> for Slot {
    type Error = BadSlot;

    fn try_from(text: String) -> Result<Self, BadSlot> {
        text.parse()
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

/// One thing that is done about one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Job {
    /// It comes to run.
    Provision(Slot),
    /// It answers.
    Ready(Slot),
    /// A step is done on it.
    Work {
        /// Which.
        step: Box<str>,
        /// On which machine.
        slot: Slot,
    },
    /// It is destroyed, stopped or kept.
    Clean(Slot),
}

impl Job {
    /// The machine.
    #[must_use]
    pub const fn slot(&self) -> &Slot {
        match self {
            Self::Provision(slot) | Self::Ready(slot) | Self::Clean(slot) => slot,
            Self::Work { slot, .. } => slot,
        }
    }

    /// The step, if it is one.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Work { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Whether it cleans up, and so must be done whatever happens.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        matches!(self, Self::Clean(_))
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provision(slot) => write!(f, "provision {slot}"),
            Self::Ready(slot) => write!(f, "wait for {slot}"),
            Self::Work { step, slot } => write!(f, "{step} on {slot}"),
            Self::Clean(slot) => write!(f, "clean up {slot}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reads_back_and_nothing_else_is_one() {
        let slot = Slot::new("builders", 2);
        assert_eq!(slot.to_string().parse(), Ok(slot));
        for bad in ["", "builders", "builders/", "builders/-1", "a/4294967296"] {
            assert!(bad.parse::<Slot>().is_err(), "{bad}");
        }
    }
}
