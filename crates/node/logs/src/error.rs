//! Why logs could not be given.

use muster_api::domain::{AosCode, ConvertError};
use muster_journal::{OpenDirError, ReadError};

/// Why a request for logs failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    /// The request makes no sense.
    #[error("the request for logs cannot be understood")]
    Request(#[source] ConvertError),
    /// The wanted time ends before it begins.
    #[error("the wanted time ends before it begins")]
    Range,
    /// The journal cannot be opened.
    #[error("cannot open the journal")]
    Open(#[source] OpenDirError),
    /// The journal cannot be read.
    #[error("cannot read the journal")]
    Read(#[source] ReadError),
    /// A defect.
    #[error("the search for logs ended early")]
    Ended,
}

impl CollectError {
    /// What programs decide on.
    pub(crate) fn code(&self) -> AosCode {
        match self {
            Self::Request(_) | Self::Range => AosCode::InvalidArgument,
            Self::Open(_) | Self::Read(_) => AosCode::Failed,
            Self::Ended => AosCode::Runtime,
        }
    }
}
