//! Finding values again, and the ends of chains.

use super::JournalWriter;
use super::cache::{ArrayTail, DataRef};
use crate::format::{BUCKET_SIZE, Compression, ObjectType, array, data, decompress, jenkins64};

/// Where the file does not make sense.
pub(super) struct DamagedAt(pub(super) u64);

/// A hash table of the file: where its buckets are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) offset: u64,
    pub(super) buckets: u64,
}

impl Table {
    pub(super) fn bucket(self, hash: u64) -> u64 {
        self.offset + hash % self.buckets.max(1) * BUCKET_SIZE
    }
}

impl JournalWriter {
    /// The data object that holds `payload`, if the file has one.
    pub(super) fn find(&mut self, hash: u64, payload: &[u8]) -> Result<Option<DataRef>, DamagedAt> {
        if let Some(known) = self.cache.get(hash)
            && self.holds(known.offset, payload)
        {
            return Ok(Some(known));
        }
        let bucket = self.data_table.bucket(hash);
        let mut offset = self.map.load(bucket).ok_or(DamagedAt(bucket))?;
        let mut depth = 0;
        while offset != 0 {
            let damaged = DamagedAt(offset);
            if offset >= self.map.backed() {
                return Err(damaged);
            }
            if self.map.load(offset + data::HASH) == Some(hash) && self.holds(offset, payload) {
                let found = self.data_ref(offset, payload)?;
                self.cache.put(hash, found);
                return Ok(Some(found));
            }
            let next = self
                .map
                .load(offset + data::NEXT_HASH)
                .ok_or(DamagedAt(offset))?;
            // Chains only lead forward, so a damaged one cannot be walked for ever.
            if next != 0 && next <= offset {
                return Err(damaged);
            }
            offset = next;
            depth += 1;
        }
        self.header.data_hash_chain_depth = self.header.data_hash_chain_depth.max(depth);
        Ok(None)
    }

    fn holds(&self, offset: u64, payload: &[u8]) -> bool {
        let (Some(kind), Some(size)) = (self.map.load(offset), self.map.load(offset + 8)) else {
            return false;
        };
        let [kind, flags, ..] = kind.to_le_bytes();
        if kind != ObjectType::Data.byte() {
            return false;
        }
        let start = offset + self.layout.data_payload();
        let Some(stored) = size.checked_sub(self.layout.data_payload()) else {
            return false;
        };
        match Compression::from_flags(flags) {
            Some(Compression::None) => {
                usize::try_from(stored) == Ok(payload.len()) && self.map.equals(start, payload)
            }
            Some(how) => self
                .map
                .read(start, stored)
                .and_then(|bytes| decompress(how, &bytes).ok())
                .is_some_and(|bytes| bytes == payload),
            None => false,
        }
    }

    /// Reads how many entries a data object has and where its chain of arrays ends.
    fn data_ref(&self, offset: u64, payload: &[u8]) -> Result<DataRef, DamagedAt> {
        let n_entries = self
            .map
            .load(offset + data::N_ENTRIES)
            .ok_or(DamagedAt(offset))?;
        let first = self
            .map
            .load(offset + data::ENTRY_ARRAY)
            .ok_or(DamagedAt(offset))?;
        // The first entry stands in the data object itself.
        let tail = self.chain_tail(first, n_entries.saturating_sub(1))?;
        Ok(DataRef {
            offset,
            n_entries,
            tail,
            checksum: jenkins64(payload),
        })
    }

    /// Walks a chain of arrays that holds `count` entries to its last one.
    pub(super) fn chain_tail(&self, first: u64, count: u64) -> Result<ArrayTail, DamagedAt> {
        let mut tail = ArrayTail::default();
        let (mut offset, mut left) = (first, count);
        while offset != 0 {
            let damaged = || DamagedAt(offset);
            let kind = self.map.load(offset).ok_or_else(damaged)?;
            let size = self.map.load(offset + 8).ok_or_else(damaged)?;
            let room = size.checked_sub(array::ITEMS).ok_or_else(damaged)?;
            let capacity = room / self.layout.array_item();
            let fits = offset
                .checked_add(size)
                .is_some_and(|end| end <= self.map.backed());
            if kind != u64::from(ObjectType::EntryArray.byte()) || capacity == 0 || !fits {
                return Err(damaged());
            }
            tail = ArrayTail {
                offset,
                capacity,
                used: left.min(capacity),
            };
            left -= tail.used;
            let next = self.map.load(offset + array::NEXT).ok_or_else(damaged)?;
            if next != 0 && (next <= offset || tail.used < capacity) {
                return Err(damaged());
            }
            offset = next;
        }
        if left == 0 {
            Ok(tail)
        } else {
            Err(DamagedAt(first))
        }
    }
}
