//! The file format: where each number of the header and of each kind of object stands.
//!
//! Everything is little-endian, every object starts at a multiple of eight bytes, and offsets count
//! from the start of the file; zero means "none".

mod compression;
mod hash;
mod header;
mod id;

pub use compression::DecompressError;
pub(crate) use compression::{
    Compression, Compressor, ZSTD_HEADER_MAX, decompress, unzstd_start, zstd_length,
};
pub(crate) use hash::{jenkins64, siphash24};
pub use header::FileState;
pub(crate) use header::{HEADER_BYTES, Header, at, flags};
pub use id::{Id128, ParseIdError};

/// Bytes of the header that this crate writes: all fields known up to systemd 258.
pub(crate) const HEADER_SIZE: u64 = 272;
/// Bytes that this crate puts before the first object: the header, room for what later versions of
/// systemd may add to it, and the writer's own words [`INTERRUPTED`] and [`WRITER_BOOT`].
pub(crate) const WRITTEN_HEADER_SIZE: u64 = WRITER_BOOT + 16;
/// Where the writer says that it is amid an append: the offset of the list of words that undoes it.
/// Readers of the format skip what their own header does not have.
pub(crate) const INTERRUPTED: u64 = 1024;
/// The id of the boot in which a writer last took the file.
pub(crate) const WRITER_BOOT: u64 = INTERRUPTED + 8;
/// The shortest header that any systemd wrote: everything up to `tail_entry_monotonic`.
pub(crate) const HEADER_SIZE_MIN: u64 = 208;

/// Bytes of the common start of every object.
pub(crate) const OBJECT_HEADER_SIZE: u64 = 16;

/// The largest value of one field, uncompressed, that is written or read.
pub const DATA_SIZE_MAX: u64 = 64 << 20;
/// The largest number of fields in one entry that is written or read.
pub const ENTRY_FIELDS_MAX: usize = 1024;
/// The longest field name.
pub const FIELD_NAME_MAX: usize = 64;

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Data,
    Field,
    Entry,
    DataHashTable,
    FieldHashTable,
    EntryArray,
    Tag,
}

impl ObjectType {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Data,
            2 => Self::Field,
            3 => Self::Entry,
            4 => Self::DataHashTable,
            5 => Self::FieldHashTable,
            6 => Self::EntryArray,
            7 => Self::Tag,
            _ => return None,
        })
    }

    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Field => 2,
            Self::Entry => 3,
            Self::DataHashTable => 4,
            Self::FieldHashTable => 5,
            Self::EntryArray => 6,
            Self::Tag => 7,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Field => "field",
            Self::Entry => "entry",
            Self::DataHashTable => "data hash table",
            Self::FieldHashTable => "field hash table",
            Self::EntryArray => "entry array",
            Self::Tag => "tag",
        }
    }
}

/// Offsets inside a data object. Its payload starts at [`Layout::data_payload`].
pub(crate) mod data {
    pub(crate) const HASH: u64 = 16;
    pub(crate) const NEXT_HASH: u64 = 24;
    pub(crate) const NEXT_FIELD: u64 = 32;
    pub(crate) const ENTRY: u64 = 40;
    pub(crate) const ENTRY_ARRAY: u64 = 48;
    pub(crate) const N_ENTRIES: u64 = 56;
    /// Compact files only: offset (low half) and fill (high half) of the chain's last array.
    pub(crate) const TAIL_ARRAY: u64 = 64;
}

/// Offsets inside a field object.
pub(crate) mod field {
    pub(crate) const HASH: u64 = 16;
    pub(crate) const NEXT_HASH: u64 = 24;
    pub(crate) const HEAD_DATA: u64 = 32;
    pub(crate) const PAYLOAD: u64 = 40;
}

/// Offsets inside an entry object.
pub(crate) mod entry {
    pub(crate) const SEQNUM: u64 = 16;
    pub(crate) const REALTIME: u64 = 24;
    pub(crate) const MONOTONIC: u64 = 32;
    pub(crate) const XOR_HASH: u64 = 56;
    pub(crate) const ITEMS: u64 = 64;
}

/// Offsets inside an entry array object.
pub(crate) mod array {
    pub(crate) const NEXT: u64 = 16;
    pub(crate) const ITEMS: u64 = 24;
}

/// Bytes of one bucket of a hash table: offsets of the first and the last object of its chain.
pub(crate) const BUCKET_SIZE: u64 = 16;

/// The sizes that differ between regular and compact files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    compact: bool,
}

impl Layout {
    pub(crate) fn new(compact: bool) -> Self {
        Self { compact }
    }

    pub(crate) fn is_compact(self) -> bool {
        self.compact
    }

    /// Where a data object's payload starts.
    pub(crate) fn data_payload(self) -> u64 {
        if self.compact { 72 } else { 64 }
    }

    /// Bytes per reference to a data object inside an entry.
    pub(crate) fn entry_item(self) -> u64 {
        if self.compact { 4 } else { 16 }
    }

    /// Bytes per reference to an entry inside an entry array.
    pub(crate) fn array_item(self) -> u64 {
        if self.compact { 4 } else { 8 }
    }

    /// No object of a file may lie beyond this.
    pub(crate) fn max_file_size(self) -> u64 {
        if self.compact {
            u64::from(u32::MAX)
        } else {
            1 << 47
        }
    }
}

/// Rounds up to where the next object may start.
pub(crate) fn align8(n: u64) -> u64 {
    n.saturating_add(7) & !7
}

/// Reads a little-endian number at `at`; `bytes` must reach that far.
pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Reads a little-endian number at `at`; `bytes` must reach that far.
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The realtime and monotonic clocks of the format count microseconds below this.
pub(crate) const TIME_MAX: u64 = 1 << 55;
