//! One append: plan, then act.
//!
//! 1. Every value is looked up; what is new is measured and given a place behind the used part.
//! 2. Room is made, or the file is full and nothing has happened.
//! 3. New objects are written where nothing refers to them.
//! 4. The words that make them part of the file are changed (see `stores`).

use std::collections::HashMap;

use super::cache::{ArrayTail, DataRef};
use super::lookup::DamagedAt;
use super::stores::Stores;
use super::{Appended, EntryTime, JournalWriter};
use crate::cursor::Cursor;
use crate::format::{
    Compression, Layout, ObjectType, align8, array, at, data, entry, field, jenkins64, siphash24,
};

/// Why a batch could not be written.
pub(super) enum BatchError {
    Damaged(u64),
    Full,
    Grow(std::io::Error),
}

impl From<DamagedAt> for BatchError {
    fn from(DamagedAt(offset): DamagedAt) -> Self {
        Self::Damaged(offset)
    }
}

/// A value that is not in the file yet.
struct Fresh {
    /// Its place among the entry's fields.
    index: usize,
    hash: u64,
    checksum: u64,
    /// The payload as it is stored, when that is not the field itself.
    packed: Option<Vec<u8>>,
    offset: u64,
}

/// Working memory of an append, kept between appends.
#[derive(Default)]
pub(super) struct Batch {
    stores: Stores,
    known: Vec<(u64, DataRef)>,
    fresh: Vec<Fresh>,
    /// Words whose planned value differs from the file's: ends of hash chains, heads of value lists.
    planned: HashMap<u64, u64>,
    items: Vec<u8>,
    n_fields: u64,
    n_arrays: u64,
    /// Where the next new object goes.
    end: u64,
    tail_object: u64,
    /// The last array of the chain of all entries, once the batch is complete.
    entries: ArrayTail,
    /// The entry's checksum.
    checksum: u64,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Batch {
    fn clear(&mut self, end: u64) {
        self.stores.clear();
        self.known.clear();
        self.fresh.clear();
        self.planned.clear();
        self.items.clear();
        self.n_fields = 0;
        self.n_arrays = 0;
        self.end = end;
        self.tail_object = 0;
    }

    /// Takes the next `size` bytes for an object.
    fn place(&mut self, size: u64) -> u64 {
        let offset = self.end;
        self.tail_object = offset;
        self.end = align8(offset + size);
        offset
    }
}

/// The smallest array; each further one of a chain doubles.
const FIRST_ARRAY: u64 = 4;

fn next_capacity(tail: ArrayTail) -> u64 {
    FIRST_ARRAY.max(tail.capacity.saturating_mul(2))
}

fn array_size(layout: Layout, capacity: u64) -> u64 {
    array::ITEMS + capacity * layout.array_item()
}

fn name_of(payload: &[u8]) -> &[u8] {
    payload
        .split(|byte| *byte == b'=')
        .next()
        .unwrap_or_default()
}

fn len64(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl JournalWriter {
    pub(super) fn append_batch<F: AsRef<[u8]>>(
        &mut self,
        batch: &mut Batch,
        when: EntryTime,
        fields: &[F],
    ) -> Result<Appended, BatchError> {
        batch.clear(self.end);
        self.resolve(batch, fields)?;
        let needed = self.measure(batch, fields);
        self.make_room(needed)?;
        let start = batch.end;
        for index in 0..batch.fresh.len() {
            self.write_value(batch, start, index, fields)?;
        }
        let offset = self.write_entry(batch, when)?;
        self.link_entry(batch, offset)?;
        self.finish(batch, when, offset)
    }

    /// Sorts the entry's values into known and new ones, each once.
    fn resolve<F: AsRef<[u8]>>(
        &mut self,
        batch: &mut Batch,
        fields: &[F],
    ) -> Result<(), DamagedAt> {
        for (index, field) in fields.iter().enumerate() {
            let payload = field.as_ref();
            let hash = siphash24(self.key, payload);
            if let Some(known) = self.find(hash, payload)? {
                if !batch
                    .known
                    .iter()
                    .any(|(_, other)| other.offset == known.offset)
                {
                    batch.known.push((hash, known));
                }
            } else if !batch
                .fresh
                .iter()
                .any(|other| other.hash == hash && fields[other.index].as_ref() == payload)
            {
                let packed = self.pack(payload);
                let checksum = jenkins64(payload);
                batch.fresh.push(Fresh {
                    index,
                    hash,
                    checksum,
                    packed,
                    offset: 0,
                });
            }
        }
        Ok(())
    }

    fn pack(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let (threshold, compressor) = self.compressor.as_mut()?;
        if payload.len() < *threshold {
            return None;
        }
        compressor.pack(payload)
    }

    /// Bytes behind the used part that the batch needs, with its undo list.
    fn measure<F: AsRef<[u8]>>(&self, batch: &Batch, fields: &[F]) -> u64 {
        let mut size = 0;
        for fresh in &batch.fresh {
            let payload = fields[fresh.index].as_ref();
            let name = name_of(payload);
            if !self.fields.contains_key(name) {
                // Counted for each value; at most a few bytes too many.
                size += align8(field::PAYLOAD + len64(name));
            }
            let stored = fresh.packed.as_deref().unwrap_or(payload);
            size += align8(self.layout.data_payload() + len64(stored));
        }
        let items = u64::try_from(batch.known.len() + batch.fresh.len()).unwrap_or(u64::MAX >> 8);
        size += align8(entry::ITEMS + items * self.layout.entry_item());
        let tails = batch.known.iter().filter(|(_, known)| known.n_entries > 0);
        for tail in tails.map(|(_, known)| known.tail).chain([self.entries]) {
            if tail.is_full() {
                size += align8(array_size(self.layout, next_capacity(tail)));
            }
        }
        // Per known value: item, counter, end of chain. Per new one: two ends of a bucket, a link and
        // the head of the list, for the value and for its name. And the header.
        let stores = 3 * batch.known.len() + 8 * batch.fresh.len() + 24;
        size + Stores::undo_size(stores)
    }

    /// The value that a word will have once the batch is complete.
    fn planned(&self, batch: &Batch, offset: u64) -> Result<u64, DamagedAt> {
        if let Some(value) = batch.planned.get(&offset) {
            return Ok(*value);
        }
        self.map.load(offset).ok_or(DamagedAt(offset))
    }

    /// Changes a word: at once if it belongs to a new object, else as part of the plan.
    fn change(
        &mut self,
        batch: &mut Batch,
        start: u64,
        offset: u64,
        value: u64,
    ) -> Result<(), DamagedAt> {
        if offset >= start {
            return self.map.store(offset, value).ok_or(DamagedAt(offset));
        }
        batch.stores.word(offset, value);
        Ok(())
    }

    /// Puts a new object at the end of its bucket's chain.
    fn link_bucket(
        &mut self,
        batch: &mut Batch,
        start: u64,
        bucket: u64,
        object: u64,
    ) -> Result<(), DamagedAt> {
        let tail = self.planned(batch, bucket + 8)?;
        if tail == 0 {
            batch.stores.word(bucket, object);
        } else {
            // Data and field objects keep this link in the same place.
            self.change(batch, start, tail.saturating_add(data::NEXT_HASH), object)?;
        }
        batch.stores.word(bucket + 8, object);
        batch.planned.insert(bucket + 8, object);
        Ok(())
    }

    fn write_value<F: AsRef<[u8]>>(
        &mut self,
        batch: &mut Batch,
        start: u64,
        index: usize,
        fields: &[F],
    ) -> Result<(), BatchError> {
        let fresh = &mut batch.fresh[index];
        let payload = fields[fresh.index].as_ref();
        let (hash, packed) = (fresh.hash, fresh.packed.take());
        let name = self.write_name(batch, start, name_of(payload))?;
        let stored = packed.as_deref().unwrap_or(payload);
        let how = if packed.is_some() {
            Compression::Zstd
        } else {
            Compression::None
        };
        let size = self.layout.data_payload() + len64(stored);
        let offset = batch.place(size);
        batch.fresh[index].offset = offset;

        let head = name + field::HEAD_DATA;
        let older = self.planned(batch, head)?;
        let words = [hash, 0, older, 0, 0, 1, 0];
        self.write_object(offset, ObjectType::Data, how.flags(), size, &words, stored)?;
        self.change(batch, start, head, offset)?;
        batch.planned.insert(head, offset);
        self.link_bucket(batch, start, self.data_table.bucket(hash), offset)?;
        Ok(())
    }

    /// The field object of a name, made if there is none.
    fn write_name(&mut self, batch: &mut Batch, start: u64, name: &[u8]) -> Result<u64, DamagedAt> {
        if let Some(offset) = self.fields.get(name) {
            return Ok(*offset);
        }
        let hash = siphash24(self.key, name);
        let size = field::PAYLOAD + len64(name);
        let offset = batch.place(size);
        self.write_object(offset, ObjectType::Field, 0, size, &[hash, 0, 0], name)?;
        self.link_bucket(batch, start, self.field_table.bucket(hash), offset)?;
        // A batch that is not completed forgets these again.
        self.fields.insert(name.into(), offset);
        batch.n_fields += 1;
        Ok(offset)
    }

    /// Writes a data or field object: common header, its words, its payload, padding.
    fn write_object(
        &mut self,
        offset: u64,
        kind: ObjectType,
        flags: u8,
        size: u64,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), DamagedAt> {
        let end = offset + size;
        let damaged = || DamagedAt(offset);
        let start = end - len64(payload);
        self.map.store(
            offset,
            u64::from_le_bytes([kind.byte(), flags, 0, 0, 0, 0, 0, 0]),
        );
        self.map.store(offset + 8, size).ok_or_else(damaged)?;
        for (at, word) in (offset + 16..start).step_by(8).zip(words) {
            self.map.store(at, *word).ok_or_else(damaged)?;
        }
        self.map.write(start, payload).ok_or_else(damaged)?;
        self.map.zero(end, align8(end) - end).ok_or_else(damaged)
    }

    fn write_entry(&mut self, batch: &mut Batch, when: EntryTime) -> Result<u64, DamagedAt> {
        let n_items = u64::try_from(batch.known.len() + batch.fresh.len()).unwrap_or(u64::MAX >> 8);
        let size = entry::ITEMS + n_items * self.layout.entry_item();
        let offset = batch.place(size);
        // References stand in the order of the file; new values come last anyway.
        batch.known.sort_unstable_by_key(|(_, known)| known.offset);
        let mut checksum = 0;
        let known = batch
            .known
            .iter()
            .map(|(hash, known)| (known.offset, *hash, known.checksum));
        let fresh = batch
            .fresh
            .iter()
            .map(|fresh| (fresh.offset, fresh.hash, fresh.checksum));
        for (item, hash, share) in known.chain(fresh) {
            checksum ^= share;
            if self.layout.is_compact() {
                // Offsets of compact files fit: `make_room` keeps them below 4 GiB.
                batch.items.extend_from_slice(&item.to_le_bytes()[..4]);
            } else {
                batch.items.extend_from_slice(&item.to_le_bytes());
                batch.items.extend_from_slice(&hash.to_le_bytes());
            }
        }
        let (boot_low, boot_high) = when.boot_id.hash_key();
        let seqnum = self.next_seqnum;
        let words = [
            seqnum,
            when.realtime,
            when.monotonic,
            boot_low,
            boot_high,
            checksum,
        ];
        self.write_object(offset, ObjectType::Entry, 0, size, &words, &batch.items)?;
        batch.checksum = checksum;
        for index in 0..batch.fresh.len() {
            let at = batch.fresh[index].offset + data::ENTRY;
            self.map.store(at, offset).ok_or(DamagedAt(at))?;
        }
        Ok(offset)
    }

    /// Plans the entry's place in the chain of all entries and in those of its values.
    fn link_entry(&mut self, batch: &mut Batch, offset: u64) -> Result<(), DamagedAt> {
        batch.entries = self.extend_chain(batch, self.entries, at::ENTRY_ARRAY_OFFSET, offset)?;
        for index in 0..batch.known.len() {
            let (_, mut known) = batch.known[index];
            if known.n_entries == 0 {
                batch.stores.word(known.offset + data::ENTRY, offset);
            } else {
                let link = known.offset + data::ENTRY_ARRAY;
                known.tail = self.extend_chain(batch, known.tail, link, offset)?;
                if self.layout.is_compact() {
                    let tail = known.tail.offset | known.tail.used << 32;
                    batch.stores.word(known.offset + data::TAIL_ARRAY, tail);
                }
            }
            known.n_entries += 1;
            batch
                .stores
                .word(known.offset + data::N_ENTRIES, known.n_entries);
            batch.known[index].1 = known;
        }
        Ok(())
    }

    /// Adds an entry to a chain, with a new array if the last one is full. `owner` is the word that
    /// refers to the chain's first array.
    fn extend_chain(
        &mut self,
        batch: &mut Batch,
        tail: ArrayTail,
        owner: u64,
        item: u64,
    ) -> Result<ArrayTail, DamagedAt> {
        if tail.is_full() {
            let capacity = next_capacity(tail);
            let size = array_size(self.layout, capacity);
            let offset = batch.place(size);
            batch.n_arrays += 1;
            self.write_object(offset, ObjectType::EntryArray, 0, array::ITEMS, &[0], &[])?;
            self.map.store(offset + 8, size);
            let items = offset + array::ITEMS;
            self.map
                .zero(items, batch.end - items)
                .ok_or(DamagedAt(offset))?;
            self.map.store(items, item).ok_or(DamagedAt(offset))?;
            let link = if tail.offset == 0 {
                owner
            } else {
                tail.offset + array::NEXT
            };
            batch.stores.word(link, offset);
            return Ok(ArrayTail {
                offset,
                capacity,
                used: 1,
            });
        }
        let place = tail.offset + array::ITEMS + tail.used * self.layout.array_item();
        if self.layout.is_compact() {
            let word = self.map.load(place & !7).ok_or(DamagedAt(place))?;
            let word = if place.is_multiple_of(8) {
                word & !u64::from(u32::MAX) | item
            } else {
                word & u64::from(u32::MAX) | item << 32
            };
            batch.stores.word(place & !7, word);
        } else {
            batch.stores.word(place, item);
        }
        Ok(ArrayTail {
            used: tail.used + 1,
            ..tail
        })
    }

    /// Plans the header, makes the stores, and remembers what the file now is.
    fn finish(
        &mut self,
        batch: &mut Batch,
        when: EntryTime,
        offset: u64,
    ) -> Result<Appended, BatchError> {
        let n_fresh = u64::try_from(batch.fresh.len()).unwrap_or(u64::MAX >> 8);
        let seqnum = self.next_seqnum;
        let mut header = self.header.clone();
        header.tail_object_offset = batch.tail_object;
        header.n_objects += 1 + n_fresh + batch.n_fields + batch.n_arrays;
        header.n_entries += 1;
        header.n_data += n_fresh;
        header.n_fields += batch.n_fields;
        header.n_entry_arrays += batch.n_arrays;
        header.tail_entry_seqnum = seqnum;
        header.tail_entry_realtime = when.realtime;
        header.tail_entry_monotonic = when.monotonic;
        header.tail_entry_boot_id = when.boot_id;
        if header.head_entry_seqnum == 0 {
            header.head_entry_seqnum = seqnum;
            header.head_entry_realtime = when.realtime;
        }
        let (boot_low, boot_high) = when.boot_id.hash_key();
        for (word, value) in [
            (at::N_ENTRIES, header.n_entries),
            (at::TAIL_OBJECT_OFFSET, header.tail_object_offset),
            (at::N_OBJECTS, header.n_objects),
            (at::N_DATA, header.n_data),
            (at::N_FIELDS, header.n_fields),
            (at::N_ENTRY_ARRAYS, header.n_entry_arrays),
            (at::TAIL_ENTRY_SEQNUM, seqnum),
            (at::HEAD_ENTRY_SEQNUM, header.head_entry_seqnum),
            (at::HEAD_ENTRY_REALTIME, header.head_entry_realtime),
            (at::TAIL_ENTRY_REALTIME, when.realtime),
            (at::TAIL_ENTRY_MONOTONIC, when.monotonic),
            (at::TAIL_ENTRY_BOOT_ID, boot_low),
            (at::TAIL_ENTRY_BOOT_ID + 8, boot_high),
            (at::DATA_HASH_CHAIN_DEPTH, header.data_hash_chain_depth),
            (
                at::TAIL_ENTRY_ARRAY,
                batch.entries.offset | batch.entries.used << 32,
            ),
            (at::TAIL_ENTRY_OFFSET, offset),
        ] {
            batch.stores.word(word, value);
        }
        batch
            .stores
            .apply(&mut self.map, batch.end)
            .ok_or(BatchError::Damaged(offset))?;
        self.header = header;
        self.entries = batch.entries;
        self.end = batch.end;
        self.next_seqnum += 1;
        for (hash, known) in &batch.known {
            self.cache.put(*hash, *known);
        }
        Ok(Appended {
            seqnum,
            cursor: Cursor {
                seqnum_id: Some(self.header.seqnum_id),
                seqnum: Some(seqnum),
                boot_id: Some(when.boot_id),
                monotonic: Some(when.monotonic),
                realtime: Some(when.realtime),
                xor_hash: Some(batch.checksum),
            },
        })
    }
}
