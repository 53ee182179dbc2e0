//! What goes wrong between `sctl` and the manager.

use std::io;

use muster_control::manager::{self as wire, Failure};
use muster_varlink::{CallError, ConnectError};
use thiserror::Error;

use crate::console::Exit;

/// Why the manager gave no answer, or a refusal.
#[derive(Debug, Error)]
pub(crate) enum ManagerError {
    /// It cannot be reached.
    #[error("Failed to connect to the service manager")]
    Connect {
        /// Why.
        #[source]
        source: ConnectError,
    },
    /// `ssh` cannot be started.
    #[error("Failed to start ssh to reach {host}")]
    Ssh {
        /// Whom it was to reach.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The name of a machine that ssh would take for an option.
    #[error("'{host}' is not the name of a machine")]
    Host {
        /// What was given.
        host: String,
    },
    /// It said no.
    #[error("{}", failure.message)]
    Refused {
        /// The name of the error.
        name: Box<str>,
        /// What it said.
        failure: Failure,
    },
    /// The connection broke, or the answer makes no sense.
    #[error("The service manager did not answer")]
    Call {
        /// Why.
        #[source]
        source: CallError,
    },
    /// The answers ended before the one that was waited for.
    #[error("The service manager ended its answer early")]
    Short,
}

impl ManagerError {
    /// What a failed call means.
    pub(super) fn of_call(source: CallError) -> Self {
        let CallError::Refused { error, .. } = &source else {
            return Self::Call { source };
        };
        let failure: Failure = error.parameters.read().unwrap_or_default();
        // Errors of varlink itself carry no text.
        if failure.message.is_empty() {
            return Self::Call { source };
        }
        Self::Refused {
            name: error.name.clone(),
            failure,
        }
    }

    /// The manager went away in the middle.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Call { source } => matches!(
                source,
                CallError::Send { .. } | CallError::Receive { .. } | CallError::Closed { .. }
            ),
            Self::Short => true,
            _ => false,
        }
    }

    /// Nobody listens at the socket.
    pub(crate) fn nobody_listens(&self) -> bool {
        let Self::Connect { source } = self else {
            return false;
        };
        matches!(source, ConnectError::NotRunning { .. })
    }

    /// It is an error of this name.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { name, .. } if &**name == wanted)
    }

    /// The exit code, as `systemctl` has it.
    pub(crate) fn exit(&self) -> Exit {
        let Self::Refused { name, .. } = self else {
            return Exit::Failure;
        };
        match &**name {
            wire::error::NO_SUCH_UNIT => Exit::NotInstalled,
            wire::error::NOT_PERMITTED | wire::error::REFUSED => Exit::NotPermitted,
            _ => Exit::Failure,
        }
    }
}
