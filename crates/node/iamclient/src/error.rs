//! Why a call failed.

use std::error::Error as StdError;
use std::time::Duration;

use muster_api::domain::AosError;
use tonic::{Code, Status};

/// Why a call of IAM did not do what it was for. Names the call and the object.
#[derive(Debug, thiserror::Error)]
pub enum IamCallError {
    /// IAM cannot be reached, or refused the call.
    #[error("{call}({object}) failed")]
    Call {
        /// The call, as the wire names it.
        call: &'static str,
        /// What it was about.
        object: String,
        /// What IAM or the way to it said.
        source: Box<Status>,
    },
    /// IAM took the call and reports that it failed.
    #[error("{call}({object}) was not carried out")]
    NotCarriedOut {
        /// The call.
        call: &'static str,
        /// What it was about.
        object: String,
        /// IAM's report.
        source: AosError,
    },
    /// No answer in time.
    #[error("{call}({object}) was not answered within {after:?}")]
    Late {
        /// The call.
        call: &'static str,
        /// What it was about.
        object: String,
        /// How long was waited.
        after: Duration,
    },
    /// The answer breaks a rule of the wire.
    #[error("the answer to {call}({object}) cannot be used")]
    Answer {
        /// The call.
        call: &'static str,
        /// What it was about.
        object: String,
        /// What is wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The client was made without the protected port.
    #[error("{call} needs IAM's protected port, which this client was not given")]
    NoProtectedPort {
        /// The call.
        call: &'static str,
    },
}

impl IamCallError {
    /// IAM's status code, if it refused the call.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Call { source, .. } => Some(source.code()),
            _ => None,
        }
    }

    /// Whether IAM could not be asked at all, so that asking again later may help.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Late { .. }) || self.code() == Some(Code::Unavailable)
    }
}
