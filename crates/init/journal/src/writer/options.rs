//! What a writer is told, and what it answers.

use crate::cursor::Cursor;
use crate::format::Id128;

/// What a file to be written is like.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// The machine whose entries the file holds.
    pub machine_id: Id128,
    /// The running boot: a file that was left open in an earlier one is not continued.
    pub boot_id: Id128,
    /// The file does not grow beyond this many bytes; at most 4 GiB.
    pub max_size: u64,
    /// Use the compact layout: half the size, readable since systemd 252.
    pub compact: bool,
    /// Compress values of at least this many bytes.
    pub compress_above: Option<usize>,
}

impl WriterOptions {
    /// The size limit of a file unless another is asked for.
    pub const DEFAULT_MAX_SIZE: u64 = 128 << 20;

    /// journald's defaults: compact, values from 512 bytes compressed.
    #[must_use]
    pub fn new(machine_id: Id128, boot_id: Id128) -> Self {
        Self {
            machine_id,
            boot_id,
            max_size: Self::DEFAULT_MAX_SIZE,
            compact: true,
            compress_above: Some(512),
        }
    }
}

/// Where sequence numbers come from: they are unique among all files with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqnumSource {
    /// The id of the source.
    pub id: Id128,
    /// The number of the next entry.
    pub next: u64,
}

/// When an entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryTime {
    /// Microseconds since 1970.
    pub realtime: u64,
    /// Microseconds since the boot.
    pub monotonic: u64,
    /// The boot.
    pub boot_id: Id128,
}

/// What became of an appended entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its sequence number.
    pub seqnum: u64,
    /// Its name.
    pub cursor: Cursor,
}

/// What the name of an archived file is made from, and what its successor continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchivedFile {
    /// The source of its sequence numbers.
    pub seqnum_id: Id128,
    /// The first entry's number.
    pub head_seqnum: u64,
    /// The first entry's wall clock time.
    pub head_realtime: u64,
    /// Where the next file's numbers come from.
    pub seqnums: SeqnumSource,
}
