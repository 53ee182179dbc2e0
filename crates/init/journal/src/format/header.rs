use super::{HEADER_SIZE, Id128, le32, le64};

/// The eight bytes every journal file starts with.
pub(crate) const SIGNATURE: [u8; 8] = *b"LPKSHHRH";

/// Bits of `incompatible_flags`.
pub(crate) mod flags {
    pub(crate) const XZ: u32 = 1;
    pub(crate) const LZ4: u32 = 2;
    pub(crate) const KEYED_HASH: u32 = 4;
    pub(crate) const ZSTD: u32 = 8;
    pub(crate) const COMPACT: u32 = 16;
    pub(crate) const KNOWN: u32 = XZ | LZ4 | KEYED_HASH | ZSTD | COMPACT;
    /// A bit of `compatible_flags`: the file carries seals.
    pub(crate) const SEALED: u32 = 1;
    /// Seals, the boot of the last entry, and seals without gaps: none changes how a file is read.
    pub(crate) const COMPATIBLE_KNOWN: u32 = 7;
}

/// Whether somebody writes to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Nobody writes; everything is on disk.
    Offline,
    /// A writer has the file open, or died while it had.
    Online,
    /// Rotated: nobody will ever write to it again.
    Archived,
}

impl FileState {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Offline,
            1 => Self::Online,
            2 => Self::Archived,
            _ => return None,
        })
    }

    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Offline => 0,
            Self::Online => 1,
            Self::Archived => 2,
        }
    }
}

/// The start of the file as numbers. Fields that a file's shorter, older header lacks are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) compatible_flags: u32,
    pub(crate) incompatible_flags: u32,
    /// As stored: a value no version knows is for the verifier to name.
    pub(crate) state: u8,
    pub(crate) file_id: Id128,
    pub(crate) machine_id: Id128,
    pub(crate) tail_entry_boot_id: Id128,
    pub(crate) seqnum_id: Id128,
    pub(crate) header_size: u64,
    pub(crate) arena_size: u64,
    pub(crate) data_hash_table_offset: u64,
    pub(crate) data_hash_table_size: u64,
    pub(crate) field_hash_table_offset: u64,
    pub(crate) field_hash_table_size: u64,
    pub(crate) tail_object_offset: u64,
    pub(crate) n_objects: u64,
    pub(crate) n_entries: u64,
    pub(crate) tail_entry_seqnum: u64,
    pub(crate) head_entry_seqnum: u64,
    pub(crate) entry_array_offset: u64,
    pub(crate) head_entry_realtime: u64,
    pub(crate) tail_entry_realtime: u64,
    pub(crate) tail_entry_monotonic: u64,
    pub(crate) n_data: u64,
    pub(crate) n_fields: u64,
    pub(crate) n_tags: u64,
    pub(crate) n_entry_arrays: u64,
    pub(crate) data_hash_chain_depth: u64,
    pub(crate) field_hash_chain_depth: u64,
    pub(crate) tail_entry_array_offset: u32,
    pub(crate) tail_entry_array_n_entries: u32,
    pub(crate) tail_entry_offset: u64,
}

/// Where the header's fields stand.
pub(crate) mod at {
    pub(crate) const STATE: u64 = 16;
    pub(crate) const TAIL_ENTRY_BOOT_ID: u64 = 56;
    pub(crate) const ARENA_SIZE: u64 = 96;
    pub(crate) const TAIL_OBJECT_OFFSET: u64 = 136;
    pub(crate) const N_OBJECTS: u64 = 144;
    pub(crate) const N_ENTRIES: u64 = 152;
    pub(crate) const TAIL_ENTRY_SEQNUM: u64 = 160;
    pub(crate) const HEAD_ENTRY_SEQNUM: u64 = 168;
    pub(crate) const ENTRY_ARRAY_OFFSET: u64 = 176;
    pub(crate) const HEAD_ENTRY_REALTIME: u64 = 184;
    pub(crate) const TAIL_ENTRY_REALTIME: u64 = 192;
    pub(crate) const TAIL_ENTRY_MONOTONIC: u64 = 200;
    pub(crate) const N_DATA: u64 = 208;
    pub(crate) const N_FIELDS: u64 = 216;
    pub(crate) const N_ENTRY_ARRAYS: u64 = 232;
    pub(crate) const DATA_HASH_CHAIN_DEPTH: u64 = 240;
    /// Offset (low half) and fill (high half) of the last array of the chain of all entries.
    pub(crate) const TAIL_ENTRY_ARRAY: u64 = 256;
    pub(crate) const TAIL_ENTRY_OFFSET: u64 = 264;
}

/// Bytes of the header as an array that can be indexed without checks.
pub(crate) const HEADER_BYTES: usize = 272;
const _: () = assert!(HEADER_BYTES as u64 == HEADER_SIZE);

impl Header {
    /// Reads the fields; `bytes` beyond the file's own `header_size` are not looked at.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        if bytes[..8] != SIGNATURE {
            return None;
        }
        let header_size = le64(bytes, 88);
        let mut known = *bytes;
        let end = usize::try_from(header_size)
            .unwrap_or(HEADER_BYTES)
            .min(HEADER_BYTES);
        known[end..].fill(0);
        let id = |at: usize| {
            let mut id = [0; 16];
            id.copy_from_slice(&known[at..at + 16]);
            Id128::from_bytes(id)
        };
        let word = |at: usize| le64(&known, at);
        Some(Self {
            compatible_flags: le32(&known, 8),
            incompatible_flags: le32(&known, 12),
            state: known[16],
            file_id: id(24),
            machine_id: id(40),
            tail_entry_boot_id: id(56),
            seqnum_id: id(72),
            header_size,
            arena_size: word(96),
            data_hash_table_offset: word(104),
            data_hash_table_size: word(112),
            field_hash_table_offset: word(120),
            field_hash_table_size: word(128),
            tail_object_offset: word(136),
            n_objects: word(144),
            n_entries: word(152),
            tail_entry_seqnum: word(160),
            head_entry_seqnum: word(168),
            entry_array_offset: word(176),
            head_entry_realtime: word(184),
            tail_entry_realtime: word(192),
            tail_entry_monotonic: word(200),
            n_data: word(208),
            n_fields: word(216),
            n_tags: word(224),
            n_entry_arrays: word(232),
            data_hash_chain_depth: word(240),
            field_hash_chain_depth: word(248),
            tail_entry_array_offset: le32(&known, 256),
            tail_entry_array_n_entries: le32(&known, 260),
            tail_entry_offset: word(264),
        })
    }

    /// The header as bytes.
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &SIGNATURE);
        put(8, &self.compatible_flags.to_le_bytes());
        put(12, &self.incompatible_flags.to_le_bytes());
        put(16, &[self.state]);
        for (at, id) in [
            (24, self.file_id),
            (40, self.machine_id),
            (56, self.tail_entry_boot_id),
            (72, self.seqnum_id),
        ] {
            put(at, id.as_bytes());
        }
        let words = [
            self.header_size,
            self.arena_size,
            self.data_hash_table_offset,
            self.data_hash_table_size,
            self.field_hash_table_offset,
            self.field_hash_table_size,
            self.tail_object_offset,
            self.n_objects,
            self.n_entries,
            self.tail_entry_seqnum,
            self.head_entry_seqnum,
            self.entry_array_offset,
            self.head_entry_realtime,
            self.tail_entry_realtime,
            self.tail_entry_monotonic,
            self.n_data,
            self.n_fields,
            self.n_tags,
            self.n_entry_arrays,
            self.data_hash_chain_depth,
            self.field_hash_chain_depth,
        ];
        for (index, word) in words.iter().enumerate() {
            put(88 + 8 * index, &word.to_le_bytes());
        }
        put(256, &self.tail_entry_array_offset.to_le_bytes());
        put(260, &self.tail_entry_array_n_entries.to_le_bytes());
        put(264, &self.tail_entry_offset.to_le_bytes());
        bytes
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.incompatible_flags & flags::KEYED_HASH != 0
    }

    pub(crate) fn is_compact(&self) -> bool {
        self.incompatible_flags & flags::COMPACT != 0
    }
}
