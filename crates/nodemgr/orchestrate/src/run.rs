//! Runs: their names, and what can be seen of them.

use std::fmt;
use std::str::FromStr;

use muster_lifecycle::Moment;
use serde::{Deserialize, Serialize};

use crate::entry::RunOutcome;
use crate::workflow::Workflow;

/// The longest id of a run.
const LONGEST: usize = 64;

/// The name of a run, such as `r-0f3a91c2d4e5b678`. Never used twice, and safe as a name of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Box<str>);

impl RunId {
    pub(crate) fn random() -> Self {
        Self(format!("r-{:016x}", rand::random::<u64>()).into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a text is no [`RunId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id of a run: it has lower-case letters, digits and dashes")]
pub struct BadRunId(String);

impl FromStr for RunId {
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<Self, BadRunId> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(plain);
        match fits {
            true => Ok(Self(text.into())),
            false => Err(BadRunId(text.chars().take(LONGEST).collect())),
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRunId;

    fn try_from(text: String) -> Result<Self, BadRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0.into()
    }
}

/// A run that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOrder {
    /// What shall be done.
    pub workflow: Workflow,
    /// Ordering again with the same key gives the run that was ordered first, as long as it is kept. For whoever may crash
    /// between his order and writing down what he got.
    pub key: Option<String>,
}

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The name of its workflow.
    pub name: String,
    /// When it was accepted.
    pub accepted: Moment,
    /// When it was over, and how, if it is.
    pub over: Option<(Moment, RunOutcome)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_as_a_name_of_a_folder() {
        assert!(RunId::random().as_str().parse::<RunId>().is_ok());
        for bad in ["", "..", "a/b", "A", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
