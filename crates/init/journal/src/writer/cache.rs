//! What the writer remembers about values that keep coming back.
//!
//! Of the fifteen or so fields of a log line all but the message have been seen before. Finding such
//! a value again through the file's hash table, and the end of its chain of entry arrays through the
//! chain, costs several cache misses per field; the cache makes that one.

/// The last array of a chain of entry arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ArrayTail {
    /// Zero when the chain has no array yet.
    pub(super) offset: u64,
    /// How many entries the array has room for.
    pub(super) capacity: u64,
    /// How many it holds.
    pub(super) used: u64,
}

impl ArrayTail {
    pub(super) fn is_full(self) -> bool {
        self.used >= self.capacity
    }
}

/// A data object as it stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DataRef {
    pub(super) offset: u64,
    pub(super) n_entries: u64,
    pub(super) tail: ArrayTail,
    /// The value's share of an entry's checksum.
    pub(super) checksum: u64,
}

/// A bounded, direct-mapped cache from a value's hash to its data object.
///
/// Only values that came at least twice are put in, so unique messages do not push anything out.
#[derive(Debug)]
pub(super) struct DataCache {
    slots: Vec<(u64, DataRef)>,
}

impl DataCache {
    /// Enough for five hundred services with a dozen values of their own each.
    const SLOTS: usize = 8192;

    pub(super) fn new() -> Self {
        Self {
            slots: vec![(0, DataRef::default()); Self::SLOTS],
        }
    }

    fn slot(hash: u64) -> usize {
        usize::try_from(hash % (Self::SLOTS as u64)).unwrap_or(0)
    }

    /// What is remembered under `hash`; the caller compares the value itself.
    pub(super) fn get(&self, hash: u64) -> Option<DataRef> {
        let (known, data) = self.slots[Self::slot(hash)];
        (known == hash && data.offset != 0).then_some(data)
    }

    pub(super) fn put(&mut self, hash: u64, data: DataRef) {
        self.slots[Self::slot(hash)] = (hash, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_value_takes_the_slot_of_an_earlier_one() {
        let mut cache = DataCache::new();
        assert_eq!(cache.get(0), None);
        let data = DataRef {
            offset: 8,
            ..DataRef::default()
        };
        cache.put(5, data);
        assert_eq!(cache.get(5), Some(data));
        assert_eq!(cache.get(5 + DataCache::SLOTS as u64), None);
        cache.put(5 + DataCache::SLOTS as u64, data);
        assert_eq!(cache.get(5), None);
    }
}
