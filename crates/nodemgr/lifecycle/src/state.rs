//! The states of EC2's diagram.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a machine is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Halt {
    /// Switched off: its disk is kept, its memory is lost.
    Off,
    /// Its memory is kept as well, and it goes on from there.
    Hibernated,
}

/// Where a machine is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum State {
    /// Being made, or starting.
    Pending,
    /// Running; also while it reboots.
    Running,
    /// On its way to [`Stopped`](Self::Stopped).
    Stopping(Halt),
    /// Not running; it can be started again.
    Stopped(Halt),
    /// On its way to [`Terminated`](Self::Terminated).
    ShuttingDown,
    /// Gone for good.
    Terminated,
}

impl State {
    /// Every state there is.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Stopping(Halt::Off),
        Self::Stopping(Halt::Hibernated),
        Self::Stopped(Halt::Off),
        Self::Stopped(Halt::Hibernated),
        Self::ShuttingDown,
        Self::Terminated,
    ];

    /// EC2's code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping(_) => 64,
            Self::Stopped(_) => 80,
        }
    }

    /// EC2's name, which does not tell hibernated from stopped.
    #[must_use]
    pub const fn ec2_name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping(_) => "stopping",
            Self::Stopped(_) => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// One word for each state, which [`FromStr`] reads.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopping(Halt::Hibernated) => "hibernating",
            Self::Stopped(Halt::Hibernated) => "hibernated",
            other => other.ec2_name(),
        }
    }

    /// The end is near or past, and nothing but it can follow.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }

    /// Whether the provider may show `next` some time after this, steps in between unseen.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Terminated => next == Self::Terminated,
            Self::ShuttingDown => next.is_ending(),
            Self::Pending
            | Self::Running
            | Self::Stopping(Halt::Off | Halt::Hibernated)
            | Self::Stopped(Halt::Off | Halt::Hibernated) => true,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no state of a machine")]
pub struct UnknownState(pub String);

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl TryFrom<String> for State {
    type Error = UnknownState;

    fn try_from(text: String) -> Result<Self, UnknownState> {
        text.parse()
    }
}

impl From<State> for &'static str {
    fn from(state: State) -> Self {
        state.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_those_of_ec2() {
        let expected = [
            ("pending", 0),
            ("running", 16),
            ("stopping", 64),
            ("stopping", 64),
            ("stopped", 80),
            ("stopped", 80),
            ("shutting-down", 32),
            ("terminated", 48),
        ];
        let found = State::ALL.map(|state| (state.ec2_name(), state.code()));
        assert_eq!(found, expected);
    }

    #[test]
    fn every_state_has_a_word_of_its_own_that_reads_back() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        }
        assert_eq!(
            "paused".parse::<State>(),
            Err(UnknownState("paused".to_owned()))
        );
    }
}
