//! Objects as values, each checked as far as it can be on its own.

use std::io;

use super::JournalFile;
use super::error::Fault;
use crate::format::{
    Compression, DATA_SIZE_MAX, ENTRY_FIELDS_MAX, FIELD_NAME_MAX, Id128, OBJECT_HEADER_SIZE,
    ObjectType, ZSTD_HEADER_MAX, array, data, decompress, entry, field, le32, le64, unzstd_start,
    zstd_length,
};

/// The common start of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectHeader {
    pub(crate) kind: ObjectType,
    pub(crate) flags: u8,
    pub(crate) size: u64,
}

/// A data object without its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataObject {
    pub(crate) offset: u64,
    pub(crate) compression: Compression,
    pub(crate) hash: u64,
    pub(crate) next_hash: u64,
    pub(crate) next_field: u64,
    pub(crate) entry: u64,
    pub(crate) entry_array: u64,
    pub(crate) n_entries: u64,
    /// Bytes of the payload as stored.
    pub(crate) stored: u64,
}

/// A field object.
#[derive(Debug, Clone)]
pub(crate) struct FieldObject {
    pub(crate) hash: u64,
    pub(crate) next_hash: u64,
    pub(crate) head_data: u64,
    pub(crate) name: Vec<u8>,
}

/// An entry without its references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryObject {
    pub(crate) offset: u64,
    pub(crate) seqnum: u64,
    pub(crate) realtime: u64,
    pub(crate) monotonic: u64,
    pub(crate) boot_id: Id128,
    pub(crate) xor_hash: u64,
    pub(crate) n_items: u64,
}

/// An entry array without its items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrayObject {
    pub(crate) next: u64,
    pub(crate) capacity: u64,
}

impl JournalFile {
    pub(crate) fn bytes(
        &self,
        offset: u64,
        object: &'static str,
        buffer: &mut [u8],
    ) -> Result<(), Fault> {
        self.source
            .read(offset, buffer)
            .map_err(|error| Fault::from_source(offset, object, error))
    }

    pub(crate) fn word(&self, offset: u64, object: &'static str) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.bytes(offset, object, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Reads the start of any object.
    pub(crate) fn object_header(&self, offset: u64) -> Result<ObjectHeader, Fault> {
        let mut bytes = [0; 16];
        self.located(offset, "object")?;
        self.bytes(offset, "object", &mut bytes)?;
        let kind = ObjectType::from_byte(bytes[0]).ok_or(Fault::damaged(
            offset,
            "object",
            "is of no known type",
        ))?;
        let size = le64(&bytes, 8);
        if size < OBJECT_HEADER_SIZE {
            return Err(Fault::damaged(
                offset,
                kind.name(),
                "is smaller than its own header",
            ));
        }
        Ok(ObjectHeader {
            kind,
            flags: bytes[1],
            size,
        })
    }

    fn located(&self, offset: u64, object: &'static str) -> Result<(), Fault> {
        if !offset.is_multiple_of(8) {
            return Err(Fault::damaged(offset, object, "is not aligned"));
        }
        if offset < self.header_size {
            return Err(Fault::damaged(offset, object, "lies in the file's header"));
        }
        Ok(())
    }

    /// Reads the first `buffer.len()` bytes of an object that must be of `kind`; gives its size.
    fn typed(&self, offset: u64, kind: ObjectType, buffer: &mut [u8]) -> Result<u64, Fault> {
        self.located(offset, kind.name())?;
        self.bytes(offset, kind.name(), buffer)?;
        if buffer[0] != kind.byte() {
            return Err(Fault::damaged(
                offset,
                kind.name(),
                "is an object of another type",
            ));
        }
        let size = le64(buffer, 8);
        if size < u64::try_from(buffer.len()).unwrap_or(u64::MAX) {
            return Err(Fault::damaged(offset, kind.name(), "is too small"));
        }
        Ok(size)
    }

    pub(crate) fn data(&self, offset: u64) -> Result<DataObject, Fault> {
        let mut bytes = [0; 64];
        let size = self.typed(offset, ObjectType::Data, &mut bytes)?;
        let name = ObjectType::Data.name();
        let stored = size
            .checked_sub(self.layout.data_payload())
            .filter(|stored| *stored > 0)
            .ok_or(Fault::damaged(offset, name, "has no payload"))?;
        if stored > DATA_SIZE_MAX {
            return Err(Fault::damaged(
                offset,
                name,
                "is larger than any value may be",
            ));
        }
        let compression = Compression::from_flags(bytes[1]).ok_or(Fault::damaged(
            offset,
            name,
            "has senseless compression flags",
        ))?;
        let word = |at: u64| le64(&bytes, usize::try_from(at).unwrap_or(0));
        Ok(DataObject {
            offset,
            compression,
            hash: word(data::HASH),
            next_hash: word(data::NEXT_HASH),
            next_field: word(data::NEXT_FIELD),
            entry: word(data::ENTRY),
            entry_array: word(data::ENTRY_ARRAY),
            n_entries: word(data::N_ENTRIES),
            stored,
        })
    }

    /// The value of a data object, `NAME=value`, unpacked.
    pub(crate) fn payload(&self, object: &DataObject) -> Result<Vec<u8>, Fault> {
        let offset = object.offset;
        // Bounded by DATA_SIZE_MAX; and no more is taken than the file has.
        if offset.saturating_add(object.stored) > self.size() {
            return Err(Fault::damaged(
                offset,
                "data",
                "lies beyond the end of the file",
            ));
        }
        let stored = usize::try_from(object.stored)
            .map_err(|_| Fault::damaged(offset, "data", "is too large"))?;
        let mut bytes = vec![0; stored];
        self.bytes(offset + self.layout.data_payload(), "data", &mut bytes)?;
        match object.compression {
            Compression::None => Ok(bytes),
            how => decompress(how, &bytes).map_err(|source| Fault::Unpack { offset, source }),
        }
    }

    /// The first bytes of a data object's value, at most `max`, and how many there are in all. Takes no more memory than
    /// that, but for values that LZ4 has packed.
    pub(crate) fn payload_start(
        &self,
        object: &DataObject,
        max: usize,
    ) -> Result<(Vec<u8>, u64), Fault> {
        let start = object.offset + self.layout.data_payload();
        let max_length = u64::try_from(max).unwrap_or(u64::MAX);
        match object.compression {
            Compression::None if object.stored > max_length => {
                let mut bytes = vec![0; max];
                self.bytes(start, "data", &mut bytes)?;
                return Ok((bytes, object.stored));
            }
            Compression::Zstd => {
                let mut head = [0; ZSTD_HEADER_MAX];
                let length = usize::try_from(object.stored).unwrap_or(usize::MAX);
                let head = &mut head[..length.min(ZSTD_HEADER_MAX)];
                self.bytes(start, "data", head)?;
                let unpack = |source| Fault::Unpack {
                    offset: object.offset,
                    source,
                };
                let length = zstd_length(head).map_err(unpack)?;
                if length > max_length {
                    let stored = Stored {
                        file: self,
                        place: start,
                        left: object.stored,
                    };
                    let bytes = unzstd_start(stored, max).map_err(unpack)?;
                    return Ok((bytes, length));
                }
            }
            _ => {}
        }
        let mut bytes = self.payload(object)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        bytes.truncate(max);
        Ok((bytes, length))
    }

    pub(crate) fn field_object(&self, offset: u64) -> Result<FieldObject, Fault> {
        let mut bytes = [0; 40];
        let size = self.typed(offset, ObjectType::Field, &mut bytes)?;
        let length = usize::try_from(size - field::PAYLOAD).unwrap_or(usize::MAX);
        // Old files have longer names than are written today.
        if length == 0 || length > 64 * FIELD_NAME_MAX {
            return Err(Fault::damaged(
                offset,
                "field",
                "has a name of senseless length",
            ));
        }
        let mut name = vec![0; length];
        self.bytes(offset + field::PAYLOAD, "field", &mut name)?;
        let word = |at: u64| le64(&bytes, usize::try_from(at).unwrap_or(0));
        Ok(FieldObject {
            hash: word(field::HASH),
            next_hash: word(field::NEXT_HASH),
            head_data: word(field::HEAD_DATA),
            name,
        })
    }

    pub(crate) fn entry_object(&self, offset: u64) -> Result<EntryObject, Fault> {
        let mut bytes = [0; 64];
        let size = self.typed(offset, ObjectType::Entry, &mut bytes)?;
        let items = size - entry::ITEMS;
        let item = self.layout.entry_item();
        if items == 0 || !items.is_multiple_of(item) {
            return Err(Fault::damaged(
                offset,
                "entry",
                "does not hold a number of references",
            ));
        }
        let word = |at: u64| le64(&bytes, usize::try_from(at).unwrap_or(0));
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[40..56]);
        Ok(EntryObject {
            offset,
            seqnum: word(entry::SEQNUM),
            realtime: word(entry::REALTIME),
            monotonic: word(entry::MONOTONIC),
            boot_id: Id128::from_bytes(boot_id),
            xor_hash: word(entry::XOR_HASH),
            n_items: items / item,
        })
    }

    /// The data objects that an entry refers to, at most [`ENTRY_FIELDS_MAX`] of them.
    pub(crate) fn items(&self, object: &EntryObject) -> Result<Vec<u64>, Fault> {
        let item = self.layout.entry_item();
        let count = usize::try_from(object.n_items)
            .unwrap_or(usize::MAX)
            .min(ENTRY_FIELDS_MAX);
        let width = usize::try_from(item).unwrap_or(16);
        let mut bytes = vec![0; count * width];
        self.bytes(object.offset + entry::ITEMS, "entry", &mut bytes)?;
        Ok(bytes
            .chunks_exact(width)
            .map(|item| {
                if width == 4 {
                    u64::from(le32(item, 0))
                } else {
                    le64(item, 0)
                }
            })
            .collect())
    }

    pub(crate) fn array_object(&self, offset: u64) -> Result<ArrayObject, Fault> {
        let mut bytes = [0; 24];
        let size = self.typed(offset, ObjectType::EntryArray, &mut bytes)?;
        let room = size - array::ITEMS;
        let capacity = room / self.layout.array_item();
        if capacity == 0 || offset.saturating_add(size) > self.layout.max_file_size() {
            return Err(Fault::damaged(
                offset,
                "entry array",
                "is of senseless size",
            ));
        }
        Ok(ArrayObject {
            next: le64(&bytes, 16),
            capacity,
        })
    }

    /// The reference at `index` of the array at `offset`.
    pub(crate) fn array_item(&self, offset: u64, index: u64) -> Result<u64, Fault> {
        let at = offset + array::ITEMS + index * self.layout.array_item();
        if self.layout.is_compact() {
            let mut item = [0; 4];
            self.bytes(at, "entry array", &mut item)?;
            Ok(u64::from(u32::from_le_bytes(item)))
        } else {
            self.word(at, "entry array")
        }
    }
}

/// The stored bytes of a payload, read as they are asked for.
struct Stored<'a> {
    file: &'a JournalFile,
    place: u64,
    left: u64,
}

impl io::Read for Stored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        self.file
            .bytes(self.place, "data", &mut buffer[..length])
            .map_err(|_| io::ErrorKind::InvalidData)?;
        let taken = u64::try_from(length).unwrap_or(u64::MAX);
        self.place = self.place.saturating_add(taken);
        self.left = self.left.saturating_sub(taken);
        Ok(length)
    }
}
