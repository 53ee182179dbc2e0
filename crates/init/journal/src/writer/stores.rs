//! The words that an append changes in place, and how they are taken back.
//!
//! New objects go behind the end of the file's used part, where nothing refers to them yet. What then
//! makes them part of the file is a set of stores to words that exist: links, counters, the header.
//! A process can be killed between any two of them, so the old values are first written down in the
//! free space behind the new objects, and the header's word [`INTERRUPTED`] points there while the
//! stores are made. Whoever opens the file next puts the old values back.

use muster_fault::hit;

use super::map::FileMap;
use crate::faults::{APPENDED, HALF_LINKED, LINKED, OBJECTS_WRITTEN, UNDO_VALID};
use crate::format::INTERRUPTED;

/// Stores to be made, in order.
#[derive(Debug, Default)]
pub(super) struct Stores {
    list: Vec<(u64, u64)>,
}

impl Stores {
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Plans a store of a word.
    pub(super) fn word(&mut self, offset: u64, value: u64) {
        self.list.push((offset, value));
    }

    /// Bytes that the undo list of `stores` stores needs.
    pub(super) fn undo_size(stores: usize) -> u64 {
        8 + 16 * u64::try_from(stores).unwrap_or(u64::MAX >> 8)
    }

    /// Makes the stores. `free` is where the undo list may stand. None, and nothing changed, when one
    /// of the words is outside the file.
    pub(super) fn apply(&self, map: &mut FileMap, free: u64) -> Option<()> {
        let mut at = free + 8;
        for (offset, _) in &self.list {
            let old = map.load(*offset)?;
            map.store(at, *offset)?;
            map.store(at + 8, old)?;
            at += 16;
        }
        map.store(free, u64::try_from(self.list.len()).ok()?)?;
        hit(OBJECTS_WRITTEN);
        map.store(INTERRUPTED, free)?;
        hit(UNDO_VALID);
        let half = self.list.len() / 2;
        for (index, (offset, value)) in self.list.iter().enumerate() {
            if index == half {
                hit(HALF_LINKED);
            }
            // Every word was loaded above, so it is there.
            map.store(*offset, *value)?;
        }
        hit(LINKED);
        map.store(INTERRUPTED, 0)?;
        hit(APPENDED);
        Some(())
    }
}

/// Takes an interrupted append back, if there is one. None when the undo list makes no sense.
pub(super) fn undo_interrupted(map: &mut FileMap) -> Option<()> {
    let free = map.load(INTERRUPTED)?;
    if free == 0 {
        return Some(());
    }
    let count = map.load(free)?;
    let end = count.checked_mul(16)?.checked_add(8)?.checked_add(free)?;
    if end > map.backed() {
        return None;
    }
    // Backwards, so that of two stores to one word the older value stays.
    for index in (0..count).rev() {
        let record = free + 8 + 16 * index;
        let (offset, old) = (map.load(record)?, map.load(record + 8)?);
        if offset >= free {
            return None;
        }
        map.store(offset, old)?;
    }
    map.store(INTERRUPTED, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> FileMap {
        let file = tempfile::tempfile().expect("file");
        file.set_len(1 << 16).expect("length");
        FileMap::new(&file, 1 << 16, 1 << 16).expect("map")
    }

    #[test]
    fn stores_are_made_in_order_and_leave_no_undo() {
        let mut map = map();
        let mut stores = Stores::default();
        stores.word(2048, 1);
        stores.word(2048, 2);
        stores.word(2056, 3);
        assert_eq!(stores.apply(&mut map, 4096), Some(()));
        assert_eq!((map.load(2048), map.load(2056)), (Some(2), Some(3)));
        assert_eq!(map.load(INTERRUPTED), Some(0));
        assert_eq!(undo_interrupted(&mut map), Some(()));
        assert_eq!(map.load(2048), Some(2));
    }

    #[test]
    fn an_interrupted_append_is_taken_back() {
        let mut map = map();
        map.store(2048, 7).expect("store");
        let mut stores = Stores::default();
        stores.word(2048, 1);
        stores.word(2048, 2);
        assert_eq!(stores.apply(&mut map, 4096), Some(()));
        // As if the process had died before it cleared the mark.
        map.store(INTERRUPTED, 4096).expect("store");
        assert_eq!(undo_interrupted(&mut map), Some(()));
        assert_eq!(map.load(2048), Some(7));
        assert_eq!(map.load(INTERRUPTED), Some(0));
    }

    #[test]
    fn a_senseless_undo_list_is_refused() {
        for (free, count) in [(4096, u64::MAX), (4096, 1 << 40), (1 << 20, 1), (4097, 1)] {
            let mut map = map();
            map.store(INTERRUPTED, free).expect("store");
            let _ = map.store(free, count);
            assert_eq!(undo_interrupted(&mut map), None, "{free} {count}");
        }
    }

    #[test]
    fn a_store_outside_the_file_changes_nothing() {
        let mut map = map();
        let mut stores = Stores::default();
        stores.word(2048, 1);
        stores.word(1 << 20, 1);
        assert_eq!(stores.apply(&mut map, 4096), None);
        assert_eq!(map.load(2048), Some(0));
    }
}
