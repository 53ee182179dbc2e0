//! Finding values, names and places in a file.

use super::chain::Chain;
use super::error::{Fault, skip_damage};
use super::object::{DataObject, EntryObject, FieldObject};
use super::{Direction, JournalFile};
use crate::format::{BUCKET_SIZE, Id128};

/// Chains of a bucket are a few objects long; more than this many are not followed.
const CHAIN_MAX: usize = 1 << 20;

impl JournalFile {
    /// The first object of the bucket for `hash` in the table at `offset`.
    fn bucket(&self, offset: u64, size: u64, hash: u64) -> Result<u64, Fault> {
        let buckets = size / BUCKET_SIZE;
        if buckets == 0 {
            return Ok(0);
        }
        self.word(offset + hash % buckets * BUCKET_SIZE, "hash table")
    }

    /// The data object with this value, `NAME=value`.
    pub(crate) fn find_data(&self, value: &[u8]) -> Result<Option<DataObject>, Fault> {
        let hash = self.hash(value);
        let (table, size) = {
            let header = &self.snapshot().header;
            (header.data_hash_table_offset, header.data_hash_table_size)
        };
        let mut offset = self.bucket(table, size, hash)?;
        for _ in 0..CHAIN_MAX {
            if offset == 0 {
                break;
            }
            let Some(object) = skip_damage(self.data(offset))? else {
                break;
            };
            if object.hash == hash
                && skip_damage(self.payload(&object))?.is_some_and(|payload| payload == value)
            {
                return Ok(Some(object));
            }
            if object.next_hash <= offset {
                break;
            }
            offset = object.next_hash;
        }
        Ok(None)
    }

    /// The field object with this name.
    fn find_field(&self, name: &[u8]) -> Result<Option<FieldObject>, Fault> {
        let hash = self.hash(name);
        let (table, size) = {
            let header = &self.snapshot().header;
            (header.field_hash_table_offset, header.field_hash_table_size)
        };
        let mut offset = self.bucket(table, size, hash)?;
        for _ in 0..CHAIN_MAX {
            if offset == 0 {
                break;
            }
            let Some(object) = skip_damage(self.field_object(offset))? else {
                break;
            };
            if object.hash == hash && object.name == name {
                return Ok(Some(object));
            }
            if object.next_hash <= offset {
                break;
            }
            offset = object.next_hash;
        }
        Ok(None)
    }

    /// Calls `each` with every data object whose value has this name, newest first, until it says stop.
    pub(crate) fn each_value(
        &self,
        name: &[u8],
        mut each: impl FnMut(&DataObject) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let Some(field) = self.find_field(name)? else {
            return Ok(());
        };
        let mut offset = field.head_data;
        // Each value is linked in front of the older ones.
        while offset != 0 {
            let Some(object) = skip_damage(self.data(offset))? else {
                break;
            };
            if !each(&object)? || object.next_field >= offset {
                break;
            }
            offset = object.next_field;
        }
        Ok(())
    }

    /// Calls `each` with the name of every field in the file.
    pub(crate) fn each_name(&self, mut each: impl FnMut(&[u8])) -> Result<(), Fault> {
        let (table, size) = {
            let header = &self.snapshot().header;
            (header.field_hash_table_offset, header.field_hash_table_size)
        };
        for index in 0..size / BUCKET_SIZE {
            let bucket = skip_damage(self.word(table + index * BUCKET_SIZE, "hash table"))?;
            let mut offset = bucket.unwrap_or(0);
            while offset != 0 {
                let Some(object) = skip_damage(self.field_object(offset))? else {
                    break;
                };
                each(&object.name);
                if object.next_hash <= offset {
                    break;
                }
                offset = object.next_hash;
            }
        }
        Ok(())
    }

    /// The place of the first entry for which `before` does not hold.
    pub(crate) fn place_where(&self, before: impl Fn(&EntryObject) -> bool) -> Result<u64, Fault> {
        let mut chain = Chain::of_file(self);
        let index = chain.partition(self, |offset| Ok(before(&self.entry_object(offset)?)))?;
        match chain.get(self, index)? {
            Some(offset) => Ok(offset),
            None => self.end_place(),
        }
    }

    /// The place behind the last entry.
    pub(crate) fn end_place(&self) -> Result<u64, Fault> {
        let tail = self.snapshot().header.tail_object_offset;
        let last = Chain::of_file(self).nearest(self, u64::MAX, Direction::Backward)?;
        Ok(last.unwrap_or(0).max(tail).saturating_add(1))
    }

    /// The last entry; its number in the header may be ahead of it.
    pub(crate) fn last_entry(&self) -> Result<Option<EntryObject>, Fault> {
        match Chain::of_file(self).nearest(self, u64::MAX, Direction::Backward)? {
            Some(offset) => self.entry_object(offset).map(Some),
            None => Ok(None),
        }
    }

    /// The place of the first entry of a boot at or after a time, behind the boot's last entry if there
    /// is none. None when the file has no entry of that boot.
    pub(crate) fn place_in_boot(
        &self,
        boot_id: Id128,
        monotonic: u64,
    ) -> Result<Option<u64>, Fault> {
        let Some(data) = self.find_data(format!("_BOOT_ID={boot_id}").as_bytes())? else {
            return Ok(None);
        };
        let mut chain = Chain::of_data(&data);
        let index = chain.partition(self, |offset| {
            Ok(self.entry_object(offset)?.monotonic < monotonic)
        })?;
        if let Some(offset) = chain.get(self, index)? {
            return Ok(Some(offset));
        }
        let last = chain.nearest(self, u64::MAX, Direction::Backward)?;
        Ok(last.map(|offset| offset.saturating_add(1)))
    }

    /// The first and the last entry with a value.
    pub(crate) fn ends_of(
        &self,
        data: &DataObject,
    ) -> Result<Option<(EntryObject, EntryObject)>, Fault> {
        let mut chain = Chain::of_data(data);
        let first = chain.nearest(self, 0, Direction::Forward)?;
        let last = chain.nearest(self, u64::MAX, Direction::Backward)?;
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(None);
        };
        let first = skip_damage(self.entry_object(first))?;
        let last = skip_damage(self.entry_object(last))?;
        Ok(first.zip(last))
    }
}
