//! What the user should know beside the changes of a plan.

use std::fmt;

use super::InstallError;
use crate::name::UnitName;

/// One remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A unit named in `Also=` cannot be enabled.
    AlsoFailed {
        /// As named there.
        name: Box<str>,
    },
    /// A link was planned for a unit that does not exist.
    DestinationMissing {
        /// The file of the unit that is linked.
        file: Box<str>,
        /// The unit that it is linked for.
        destination: UnitName,
    },
    /// One unit of many cannot be changed; the others are.
    Refused {
        /// Why.
        error: InstallError,
    },
    /// A masked unit was left alone.
    Masked {
        /// The mask.
        path: Box<str>,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlsoFailed { name } => {
                write!(f, "Failed to enable auxiliary unit {name}, ignoring.")
            }
            Self::DestinationMissing { file, destination } => write!(
                f,
                "Unit {file} is added as a dependency to a non-existent unit {destination}."
            ),
            Self::Refused { error } => error.fmt(f),
            Self::Masked { path } => write!(f, "Unit {path} is masked, ignoring."),
        }
    }
}
