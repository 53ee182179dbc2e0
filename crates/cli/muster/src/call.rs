//! Calls of daemons that failed, and what that means.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

use crate::console::Exit;

/// Who was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A Unit's Communication Manager.
    Unit,
    /// A node manager.
    NodeManager,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "the Unit",
            Self::NodeManager => "the node manager",
        })
    }
}

impl Peer {
    /// Sorts a failed call: the peer's own words, or trouble on the way.
    pub(crate) fn failed(self, call: &'static str, status: Status) -> CallError {
        // A status that a peer has sent has no cause of its own.
        let on_the_way = status.source().is_some();
        let (peer, source) = (self, Box::new(status));
        match on_the_way {
            true => CallError::Broken { peer, call, source },
            false => CallError::Refused { peer, source },
        }
    }

    /// A stream was over.
    pub(crate) fn ended(self, call: &'static str) -> CallError {
        CallError::Ended { peer: self, call }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{peer} {}", said(source.code()))]
    Refused {
        peer: Peer,
        #[source]
        source: Box<Status>,
    },
    #[error("the connection to {peer} broke during {call}")]
    Broken {
        peer: Peer,
        call: &'static str,
        #[source]
        source: Box<Status>,
    },
    #[error("{call} was not answered within {} s", within.as_secs())]
    Late {
        call: &'static str,
        within: Duration,
    },
    #[error("{peer} ended {call}, which goes on otherwise")]
    Ended { peer: Peer, call: &'static str },
}

/// What a person reads who does not know the names of calls.
fn said(code: Code) -> &'static str {
    match code {
        Code::Internal | Code::Unknown | Code::DataLoss | Code::Aborted | Code::Cancelled => {
            "failed"
        }
        Code::DeadlineExceeded => "was not done in time",
        Code::Unavailable => "is not there for that now",
        _ => "refused",
    }
}

impl CallError {
    /// Whether it makes sense to try again.
    pub(crate) fn is_on_the_way(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Late { .. } | Self::Ended { .. } => true,
            // A daemon that is about to end says so.
            Self::Refused { source, .. } => source.code() == Code::Unavailable,
        }
    }

    /// The peer sent more than this side took, and asks it to begin again.
    pub(crate) fn is_begin_again(&self) -> bool {
        let again = [Code::Aborted, Code::DataLoss, Code::OutOfRange];
        matches!(self, Self::Refused { source, .. } if again.contains(&source.code()))
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Broken { .. } | Self::Late { .. } | Self::Ended { .. } => Exit::Unreachable,
            Self::Refused { source, .. } => match source.code() {
                Code::NotFound => Exit::NotFound,
                Code::InvalidArgument => Exit::Usage,
                Code::DeadlineExceeded => Exit::Late,
                Code::Unavailable => Exit::Unreachable,
                Code::PermissionDenied
                | Code::Unauthenticated
                | Code::FailedPrecondition
                | Code::Unimplemented => Exit::Refused,
                _ => Exit::Failed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_refuses_has_its_exit_code() {
        for (code, exit) in [
            (Code::NotFound, Exit::NotFound),
            (Code::InvalidArgument, Exit::Usage),
            (Code::FailedPrecondition, Exit::Refused),
            (Code::Unavailable, Exit::Unreachable),
            (Code::Aborted, Exit::Failed),
        ] {
            let error = Peer::NodeManager.failed("Provision", Status::new(code, "no"));
            assert_eq!(error.exit(), exit, "{code}");
        }
    }

    #[test]
    fn what_a_peer_refuses_is_told_from_a_broken_way() {
        let refused = Peer::Unit.failed("Apply", Status::not_found("no"));
        assert_eq!(
            (refused.exit(), refused.is_on_the_way()),
            (Exit::NotFound, false)
        );
        let away = Peer::Unit.failed("Apply", Status::unavailable("no"));
        assert_eq!(
            (away.exit(), away.is_on_the_way()),
            (Exit::Unreachable, true)
        );
        let broken = Status::from_error(Box::new(std::io::Error::other("cut")));
        let broken = Peer::Unit.failed("Apply", broken);
        assert_eq!(
            (broken.exit(), broken.is_on_the_way()),
            (Exit::Unreachable, true)
        );
        let text = "the connection to the Unit broke during Apply";
        assert_eq!(broken.to_string(), text);
    }
}
