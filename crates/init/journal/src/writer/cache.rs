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

/// A value's hash and its data object.
type Slot = (u64, DataRef);

/// A bounded cache from a value's hash to its data object: sets of a few slots, in each the least
/// recently found one goes.
///
/// Only values that came at least twice are put in, so unique messages do not push anything out.
#[derive(Debug)]
pub(super) struct DataCache {
    sets: Vec<[Slot; Self::WAYS]>,
}

impl DataCache {
    const WAYS: usize = 4;
    /// Enough for five hundred services with a dozen values of their own each.
    const SETS: usize = 2048;

    pub(super) fn new() -> Self {
        Self {
            sets: vec![[Slot::default(); Self::WAYS]; Self::SETS],
        }
    }

    fn set(&mut self, hash: u64) -> &mut [Slot; Self::WAYS] {
        let set = usize::try_from(hash % (Self::SETS as u64)).unwrap_or(0);
        &mut self.sets[set]
    }

    /// What is remembered under `hash`; the caller compares the value itself.
    pub(super) fn get(&mut self, hash: u64) -> Option<DataRef> {
        let set = self.set(hash);
        let way = set
            .iter()
            .position(|(known, data)| *known == hash && data.offset != 0)?;
        let found = set[way].1;
        // One step towards the front each time: what is found often stays.
        set.swap(way, way.saturating_sub(1));
        Some(found)
    }

    pub(super) fn put(&mut self, hash: u64, data: DataRef) {
        let set = self.set(hash);
        let way = set
            .iter()
            .position(|(known, _)| *known == hash)
            .unwrap_or(Self::WAYS - 1);
        set[way] = (hash, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> DataRef {
        DataRef {
            offset,
            ..DataRef::default()
        }
    }

    /// The `n`-th hash of one set.
    fn hash(n: u64) -> u64 {
        5 + n * DataCache::SETS as u64
    }

    #[test]
    fn values_are_found_and_replaced() {
        let mut cache = DataCache::new();
        assert_eq!(cache.get(0), None);
        cache.put(hash(0), at(8));
        assert_eq!(cache.get(hash(0)), Some(at(8)));
        cache.put(hash(0), at(16));
        assert_eq!(cache.get(hash(0)), Some(at(16)));
        assert_eq!(cache.get(hash(1)), None);
    }

    #[test]
    fn what_is_found_often_outlives_what_is_not() {
        let mut cache = DataCache::new();
        cache.put(hash(0), at(8));
        for _ in 0..DataCache::WAYS {
            assert!(cache.get(hash(0)).is_some());
        }
        for n in 1..100 {
            cache.put(hash(n), at(8 * n));
            assert!(cache.get(hash(n)).is_some());
        }
        assert_eq!(cache.get(hash(0)), Some(at(8)));
        assert_eq!(cache.get(hash(1)), None);
    }
}
