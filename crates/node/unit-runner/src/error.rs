//! Why the init system did not do what it was asked to.

use std::path::PathBuf;

use crate::spec::UnitName;

/// A request to the init system that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The unit did not come up. Nothing of it is left.
    #[error("unit {unit} did not start: {reason}")]
    Start {
        /// Which.
        unit: UnitName,
        /// What the init system says about it.
        reason: String,
    },
    /// The unit is still up.
    #[error("unit {unit} did not end within {within:?} of being killed")]
    Survived {
        /// Which.
        unit: UnitName,
        /// How long was waited.
        within: std::time::Duration,
    },
    /// The init system cannot be asked, or gave no proper answer.
    #[error("cannot {operation} {object}")]
    Ask {
        /// As a verb: `start unit`, `list units`.
        operation: &'static str,
        /// What it was about.
        object: String,
        /// Why.
        #[source]
        source: AskError,
    },
}

/// Why the init system gave no proper answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody listens.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to {} broke", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It was closed before the answer came.
    #[error("the connection to {} was closed before the answer", path.display())]
    Closed {
        /// The socket.
        path: PathBuf,
    },
    /// It took too long.
    #[error("no answer within {within:?}")]
    TimedOut {
        /// How long was waited.
        within: std::time::Duration,
    },
    /// The answer cannot be read.
    #[error("the answer cannot be read")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It said no.
    #[error("{name}: {message}")]
    Refused {
        /// The error's name on the wire.
        name: String,
        /// What it says.
        message: String,
    },
    /// The bus failed.
    #[error("the connection to systemd failed")]
    Bus(#[source] Box<zbus::Error>),
}

impl AskError {
    /// Whether the init system may simply be starting anew, as it does after an upgrade or a crash of its own.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::Closed { .. } => true,
            Self::Bus(error) => matches!(
                **error,
                zbus::Error::InputOutput(_) | zbus::Error::Handshake(_)
            ),
            // The bus has nobody to pass the call on to, or lost who had it.
            Self::Refused { name, .. } => matches!(
                name.as_str(),
                "org.freedesktop.DBus.Error.NameHasNoOwner"
                    | "org.freedesktop.DBus.Error.ServiceUnknown"
                    | "org.freedesktop.DBus.Error.NoReply"
                    | "org.freedesktop.DBus.Error.Disconnected"
            ),
            Self::TimedOut { .. } | Self::Malformed(_) => false,
        }
    }

    pub(crate) fn while_doing(self, operation: &'static str, object: &str) -> UnitError {
        UnitError::Ask {
            operation,
            object: object.to_owned(),
            source: self,
        }
    }
}
