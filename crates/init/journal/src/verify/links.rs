//! Everything that refers to something else.

use super::objects::Objects;
use crate::file::{Chain, Fault, JournalFile};
use crate::format::{BUCKET_SIZE, Header};

/// How often and by which entries a value is referred to, as far as it can be compared: a count and
/// an order-independent sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    fn add(&mut self, entry: u64) {
        self.count += 1;
        // Spreads neighbouring offsets, so that one cannot stand in for another.
        self.sum = self
            .sum
            .wrapping_add(entry.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    }
}

pub(super) fn check(file: &JournalFile, header: &Header, objects: &Objects) -> Result<(), Fault> {
    if header.tail_object_offset == 0 {
        return Ok(());
    }
    let mut all = Chain::of_file(file);
    if chain_tally(file, objects, &mut all, 0, "header")?.count != objects.entries.len() as u64 {
        return Err(Fault::damaged(0, "header", "does not list all entries"));
    }
    check_references(file, objects)?;
    check_data_table(file, header, objects)?;
    check_field_table(file, header, objects)
}

/// Walks a chain: sorted, made of known arrays, listing known entries.
fn chain_tally(
    file: &JournalFile,
    objects: &Objects,
    chain: &mut Chain,
    owner: u64,
    kind: &'static str,
) -> Result<Tally, Fault> {
    let wrong = |problem| Fault::damaged(owner, kind, problem);
    let mut tally = Tally::default();
    let mut last = 0;
    for index in 0..chain.len() {
        let entry = chain
            .get(file, index)?
            .ok_or(wrong("has a list of entries that is too short"))?;
        if entry <= last {
            return Err(wrong("has a list of entries that is not sorted"));
        }
        if objects.entries.binary_search(&entry).is_err() {
            return Err(wrong("lists an entry that does not exist"));
        }
        last = entry;
        tally.add(entry);
    }
    if chain
        .arrays()
        .any(|array| objects.arrays.binary_search(&array).is_err())
    {
        return Err(wrong(
            "has a list of entries in an array that does not exist",
        ));
    }
    Ok(tally)
}

/// Each value lists exactly the entries that refer to it.
fn check_references(file: &JournalFile, objects: &Objects) -> Result<(), Fault> {
    let mut tallies = vec![Tally::default(); objects.data.len()];
    let mut last_tallies = Vec::new();
    for (index, offset) in objects.entries.iter().enumerate() {
        let entry = file.entry_object(*offset)?;
        for item in file.items(&entry)? {
            let data = objects.data.binary_search_by_key(&item, |data| data.offset);
            let data = data
                .map_err(|_| Fault::damaged(*offset, "entry", "has a value that does not exist"))?;
            if index + 1 == objects.entries.len() {
                // journald may run out of space before it has linked its very last entry.
                last_tallies.push((data, tallies[data]));
            }
            tallies[data].add(*offset);
        }
    }
    for (index, data) in objects.data.iter().enumerate() {
        let listed = chain_tally(
            file,
            objects,
            &mut Chain::of_data(data),
            data.offset,
            "data",
        )?;
        let without_last = last_tallies.iter().find(|(other, _)| *other == index);
        if listed != tallies[index] && without_last.is_none_or(|(_, tally)| listed != *tally) {
            let problem = "does not list the entries that refer to it";
            return Err(Fault::damaged(data.offset, "data", problem));
        }
    }
    Ok(())
}

fn check_data_table(file: &JournalFile, header: &Header, objects: &Objects) -> Result<(), Fault> {
    let find = |offset: u64| {
        let found = objects
            .data
            .binary_search_by_key(&offset, |data| data.offset);
        found
            .ok()
            .map(|index| (objects.data[index].hash, objects.data[index].next_hash))
    };
    let table = (header.data_hash_table_offset, header.data_hash_table_size);
    let reached = check_table(file, table, "data hash table", |offset| Ok(find(offset)))?;
    if reached != objects.data.len() as u64 {
        let problem = "does not contain all values";
        return Err(Fault::damaged(table.0, "data hash table", problem));
    }
    Ok(())
}

fn check_field_table(file: &JournalFile, header: &Header, objects: &Objects) -> Result<(), Fault> {
    let table = (header.field_hash_table_offset, header.field_hash_table_size);
    let reached = check_table(file, table, "field hash table", |offset| {
        if objects.fields.binary_search(&offset).is_err() {
            return Ok(None);
        }
        let field = file.field_object(offset)?;
        Ok(Some((field.hash, field.next_hash)))
    })?;
    if reached != objects.fields.len() as u64 {
        let problem = "does not contain all names";
        return Err(Fault::damaged(table.0, "field hash table", problem));
    }
    for offset in &objects.fields {
        let mut value = file.field_object(*offset)?.head_data;
        while value != 0 {
            let data = objects
                .data
                .binary_search_by_key(&value, |data| data.offset);
            let data = data.map_err(|_| {
                Fault::damaged(*offset, "field", "lists a value that does not exist")
            })?;
            let next = objects.data[data].next_field;
            if next >= value {
                let problem = "is linked to a later one of the same name";
                return Err(Fault::damaged(value, "data", problem));
            }
            value = next;
        }
    }
    Ok(())
}

/// Walks all chains of a table; `find` gives the hash and the next object of a known object. Gives
/// how many objects there are.
fn check_table(
    file: &JournalFile,
    (table, size): (u64, u64),
    kind: &'static str,
    find: impl Fn(u64) -> Result<Option<(u64, u64)>, Fault>,
) -> Result<u64, Fault> {
    let buckets = size / BUCKET_SIZE;
    let mut reached = 0;
    for index in 0..buckets {
        let bucket = table + index * BUCKET_SIZE;
        let wrong = |problem| Fault::damaged(bucket, kind, problem);
        let mut offset = file.word(bucket, kind)?;
        let mut last = 0;
        while offset != 0 {
            if offset <= last {
                return Err(wrong("has a bucket that does not lead forward"));
            }
            let (hash, next) =
                find(offset)?.ok_or(wrong("has a bucket with something that does not exist"))?;
            if hash % buckets != index {
                return Err(wrong("has something in the wrong bucket"));
            }
            reached += 1;
            last = offset;
            offset = next;
        }
        if file.word(bucket + 8, kind)? != last {
            return Err(wrong("has a bucket that does not know its last object"));
        }
    }
    Ok(reached)
}
