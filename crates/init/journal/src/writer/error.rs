use std::io;
use std::path::PathBuf;

/// Why a file could not be made or taken for writing.
#[derive(Debug, thiserror::Error)]
pub enum OpenWriterError {
    /// A system call failed.
    #[error("cannot {operation} journal file {path}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Another writer has the file.
    #[error("journal file {path} is being written by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The options cannot be carried out.
    #[error("journal file {path}: a size limit of {max_size} bytes is outside {least} to {most}")]
    SizeLimit {
        /// The file.
        path: PathBuf,
        /// The limit asked for.
        max_size: u64,
        /// The smallest possible limit.
        least: u64,
        /// The largest possible limit.
        most: u64,
    },
    /// The file exists and must not be written to; it is to be set aside for readers.
    #[error("journal file {path} cannot be continued: {reason}")]
    NotContinuable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: NotContinuable,
    },
}

/// Why an existing file is left to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotContinuable {
    /// Not a journal file at all, or cut off in its header.
    #[error("it has no valid header")]
    NoHeader,
    /// Another program or another version with other features wrote it.
    #[error("it was written by another program or version")]
    Foreign,
    /// It belongs to another machine.
    #[error("it belongs to another machine")]
    OtherMachine,
    /// It was rotated.
    #[error("it is archived")]
    Archived,
    /// Its writer ended without closing it in another boot, so not all of it may have reached the disk.
    #[error("it was not closed before the machine went down")]
    Unclean,
    /// Its parts do not fit together.
    #[error("it is damaged at offset {offset}")]
    Damaged {
        /// Where.
        offset: u64,
    },
}

/// Why an entry was not appended. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The entry has no fields.
    #[error("an entry needs at least one field")]
    NoFields,
    /// The entry has more fields than any reader takes.
    #[error("an entry of {count} fields, the limit is {}", crate::ENTRY_FIELDS_MAX)]
    TooManyFields {
        /// How many there are.
        count: usize,
    },
    /// A field is not `NAME=value` with a name that journals allow.
    #[error("field {index} of the entry has no valid name")]
    FieldName {
        /// Its place in the entry.
        index: usize,
    },
    /// A field is larger than any reader takes.
    #[error(
        "field {index} of the entry has {size} bytes, the limit is {}",
        crate::DATA_SIZE_MAX
    )]
    FieldSize {
        /// Its place in the entry.
        index: usize,
        /// Its size.
        size: usize,
    },
    /// The clock values are outside what the format can hold.
    #[error("the entry's time is outside what a journal can hold")]
    Time,
    /// The file has reached its size limit: rotate, then append again.
    #[error("journal file {path} is full")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file's parts do not fit together: set it aside, then append to a new one.
    #[error("journal file {path} is damaged at offset {offset}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
    },
    /// The disk refused.
    #[error("cannot {operation} journal file {path}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// Why a file could not be synchronised, closed or archived.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} journal file {path}")]
pub struct CloseError {
    /// What was attempted.
    pub operation: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The kernel's answer.
    #[source]
    pub source: io::Error,
}
