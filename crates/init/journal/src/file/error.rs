use std::io;
use std::path::PathBuf;

use super::source::SourceError;
use crate::format::DecompressError;

/// Why a file could not be opened for reading.
#[derive(Debug, thiserror::Error)]
pub enum OpenFileError {
    /// A system call failed.
    #[error("cannot open journal file {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Not a journal file, or cut off in its header.
    #[error("{path} is not a journal file: {problem}")]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
    /// A later version of the format.
    #[error("journal file {path} uses features {flags:#x} that this version cannot read")]
    UnknownFeatures {
        /// The file.
        path: PathBuf,
        /// The unknown bits.
        flags: u32,
    },
}

/// Why something in a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A system call failed.
    #[error("cannot read journal file {path} at offset {offset}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The file's parts do not fit together.
    #[error("journal file {path} is damaged: {object} at offset {offset} {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What stands there, or should.
        object: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A value could not be unpacked.
    #[error("cannot unpack the value at offset {offset} of journal file {path}")]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Why.
        #[source]
        source: DecompressError,
    },
}

/// A [`ReadError`] that does not know its file yet: cheap to make and to drop, since much damage is
/// stepped over.
#[derive(Debug)]
pub(crate) enum Fault {
    Io {
        offset: u64,
        source: io::Error,
    },
    Damaged {
        offset: u64,
        object: &'static str,
        problem: &'static str,
    },
    Unpack {
        offset: u64,
        source: DecompressError,
    },
}

impl Fault {
    pub(crate) fn damaged(offset: u64, object: &'static str, problem: &'static str) -> Self {
        Self::Damaged {
            offset,
            object,
            problem,
        }
    }

    pub(super) fn from_source(offset: u64, object: &'static str, error: SourceError) -> Self {
        match error {
            SourceError::End => Self::damaged(offset, object, "lies beyond the end of the file"),
            SourceError::Io(source) => Self::Io { offset, source },
        }
    }

    pub(crate) fn in_file(self, path: PathBuf) -> ReadError {
        match self {
            Self::Io { offset, source } => ReadError::Io {
                path,
                offset,
                source,
            },
            Self::Damaged {
                offset,
                object,
                problem,
            } => ReadError::Damaged {
                path,
                offset,
                object,
                problem,
            },
            Self::Unpack { offset, source } => ReadError::Unpack {
                path,
                offset,
                source,
            },
        }
    }
}

/// Makes damage "nothing there": readers step over it, but errors of the disk are reported.
pub(crate) fn skip_damage<T>(result: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Damaged { .. } | Fault::Unpack { .. }) => Ok(None),
        Err(error @ Fault::Io { .. }) => Err(error),
    }
}
