//! Objects of one kind, and the order in which they changed last.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Numbers changes. Each is used once, over all kinds.
pub(crate) type Revision = u64;

/// What became of an object last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change<K> {
    /// It is there, as the table has it now.
    Live(K),
    /// It is gone.
    Gone {
        key: K,
        /// When it came: whoever was told up to an earlier number does not know it.
        born: Revision,
    },
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    born: Revision,
    changed: Revision,
}

/// Objects by key, each with the number of its last change. Changing one costs the same however many there are.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    changes: BTreeMap<Revision, Change<K>>,
    /// Numbers of what is gone, the oldest first.
    gone: VecDeque<Revision>,
    gone_kept: usize,
    /// Up to here, what is gone is forgotten.
    horizon: Revision,
}

impl<K: Ord + Clone, V> Table<K, V> {
    pub(crate) fn new(gone_kept: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            gone: VecDeque::new(),
            gone_kept,
            horizon: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// For changes that nobody is told of; others are [`touch`](Self::touch)ed afterwards.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// The object, made if there is none. `next` numbers its birth.
    pub(crate) fn get_or_insert(
        &mut self,
        key: &K,
        next: &mut Revision,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        let changes = &mut self.changes;
        let entry = self.entries.entry(key.clone()).or_insert_with_key(|key| {
            *next += 1;
            changes.insert(*next, Change::Live(key.clone()));
            Entry {
                value: make(),
                born: *next,
                changed: *next,
            }
        });
        &mut entry.value
    }

    /// The object is this from now on.
    pub(crate) fn put(&mut self, key: &K, value: V, next: &mut Revision) {
        match self.get_mut(key) {
            Some(old) => {
                *old = value;
                self.touch(key, next);
            }
            None => drop(self.get_or_insert(key, next, || value)),
        }
    }

    /// The object has changed.
    pub(crate) fn touch(&mut self, key: &K, next: &mut Revision) {
        if let Some(entry) = self.entries.get_mut(key) {
            *next += 1;
            if let Some(change) = self.changes.remove(&entry.changed) {
                self.changes.insert(*next, change);
            }
            entry.changed = *next;
        }
    }

    /// The object is gone.
    pub(crate) fn remove(&mut self, key: &K, next: &mut Revision) -> Option<V> {
        let (key, entry) = self.entries.remove_entry(key)?;
        *next += 1;
        self.changes.remove(&entry.changed);
        let born = entry.born;
        self.changes.insert(*next, Change::Gone { key, born });
        self.gone.push_back(*next);
        while self.gone.len() > self.gone_kept {
            if let Some(oldest) = self.gone.pop_front() {
                self.changes.remove(&oldest);
                self.horizon = oldest;
            }
        }
        Some(entry.value)
    }

    /// What has changed after `told`, in the order of the changes.
    pub(crate) fn since(&self, told: Revision) -> impl Iterator<Item = (Revision, &Change<K>)> {
        let newer = (Bound::Excluded(told), Bound::Unbounded);
        self.changes.range(newer).map(|(at, change)| (*at, change))
    }

    /// Up to here, what is gone is forgotten: whoever was told less cannot be told the rest.
    pub(crate) fn horizon(&self) -> Revision {
        self.horizon
    }

    /// By key, from after this one on.
    pub(crate) fn after(&self, key: Option<&K>) -> impl Iterator<Item = (&K, &V)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.entries.range((from, Bound::Unbounded));
        range.map(|(key, entry)| (key, &entry.value))
    }

    /// By key, from the first that is not before this one on.
    pub(crate) fn from(&self, key: &K) -> impl Iterator<Item = (&K, &V)> {
        let range = self.entries.range(key..);
        range.map(|(key, entry)| (key, &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(key: u8) -> Change<u8> {
        Change::Live(key)
    }

    #[test]
    fn the_last_change_of_each_in_order() {
        let (mut table, mut next) = (Table::new(2), 0);
        for key in 1..=3 {
            table.get_or_insert(&key, &mut next, || ());
        }
        table.touch(&1, &mut next);
        let changes: Vec<_> = table.since(0).map(|(at, it)| (at, it.clone())).collect();
        assert_eq!(changes, [(2, live(2)), (3, live(3)), (4, live(1))]);
        table.remove(&2, &mut next);
        let changes: Vec<_> = table.since(3).map(|(_, it)| it.clone()).collect();
        assert_eq!(changes, [live(1), Change::Gone { key: 2, born: 2 }]);
        assert_eq!(table.horizon(), 0);
    }

    #[test]
    fn what_is_gone_is_forgotten_oldest_first() {
        let (mut table, mut next) = (Table::new(2), 0);
        for key in 1..=4 {
            table.get_or_insert(&key, &mut next, || ());
        }
        for key in 1..=4 {
            table.remove(&key, &mut next);
        }
        assert_eq!(table.horizon(), 6);
        let changes: Vec<_> = table.since(0).map(|(at, _)| at).collect();
        assert_eq!(changes, [7, 8]);
        assert_eq!(table.len(), 0);
    }
}
