//! Why an instance does not get what it asks for.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;

use muster_api::domain::{AosCode, InstanceIdent};

use crate::access::UnknownMode;
use crate::presence::Absence;

/// Refusals that an error holds, and holders that a refusal names; the others are counted.
pub(crate) const NAMED: usize = 8;

/// Why an instance does not get one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which resource.
    pub resource: String,
    /// Why not.
    pub reason: RefusalReason,
}

/// Why a resource is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// The resources file does not describe it.
    Unknown,
    /// As many instances have it as may.
    Taken {
        /// How many may.
        shares: NonZeroU64,
        /// Who has it: the first of them.
        holders: Vec<InstanceIdent>,
        /// How many others have it.
        more: usize,
    },
    /// One of its devices cannot be used.
    Device {
        /// Which.
        path: PathBuf,
        /// Why not.
        absence: Absence,
    },
    /// It is asked for in a mode that does not exist.
    Mode {
        /// As the item writes it.
        mode: String,
        /// What modes there are.
        source: UnknownMode,
    },
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the resources file of the node does not describe it"),
            Self::Taken {
                shares,
                holders,
                more,
            } => {
                match shares.get() {
                    1 => f.write_str("its only share is taken, by ")?,
                    shares => write!(f, "all of its {shares} shares are taken, by ")?,
                }
                let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))?;
                match more {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Device { path, absence } => write!(f, "its device {} {absence}", path.display()),
            Self::Mode { mode, source } => write!(f, "the mode {mode:?} does not exist: {source}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resource {:?}: {}", self.resource, self.reason)
    }
}

/// Why an instance gets none of what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(refusals, *more))]
pub struct AllocateError {
    /// The first refusals, at least one.
    pub refusals: Vec<Refusal>,
    /// How many others there are.
    pub more: usize,
}

fn listed(refusals: &[Refusal], more: usize) -> String {
    let named: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let more = match more {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", named.join("; "))
}

impl AllocateError {
    /// What the controller is told.
    pub fn code(&self) -> AosCode {
        match self.refusals.first().map(|it| &it.reason) {
            Some(RefusalReason::Unknown | RefusalReason::Device { .. }) => AosCode::NotFound,
            Some(RefusalReason::Taken { .. }) => AosCode::OutOfRange,
            Some(RefusalReason::Mode { .. }) => AosCode::InvalidArgument,
            None => AosCode::Failed,
        }
    }
}
