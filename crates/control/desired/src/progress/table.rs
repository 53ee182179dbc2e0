//! What became of instances, in parts that snapshots share.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::domain::{InstanceIdent, NodeId};

use super::InstanceProgress;

/// Instances of one node, or those without one.
pub(crate) type Part = BTreeMap<InstanceIdent, InstanceProgress>;

/// What became of each instance, by nodes.
///
/// A clone shares all parts with its origin, and a part that is changed in one of them is copied. So what differs between two
/// snapshots of an update is found by looking at the nodes where something has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceTable {
    parts: BTreeMap<Option<NodeId>, Arc<Part>>,
    /// Parts in which something is wrong.
    failing: BTreeSet<Option<NodeId>>,
}

/// How an instance is, or `None` where it is not there any more.
pub type InstanceChange = (InstanceIdent, Option<InstanceProgress>);

impl InstanceTable {
    /// How many instances there are.
    pub fn len(&self) -> usize {
        self.parts.values().map(|part| part.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All instances, by ident.
    pub fn iter(&self) -> impl Iterator<Item = (&InstanceIdent, &InstanceProgress)> {
        let parts = self.parts.values();
        let mut all: Vec<_> = parts.flat_map(|part| part.iter()).collect();
        all.sort_unstable_by_key(|(one, _)| *one);
        all.into_iter()
    }

    /// Which instances there are.
    pub fn keys(&self) -> impl Iterator<Item = &InstanceIdent> {
        self.iter().map(|(instance, _)| instance)
    }

    /// How they are.
    pub fn values(&self) -> impl Iterator<Item = &InstanceProgress> {
        self.iter().map(|(_, progress)| progress)
    }

    /// How an instance is. Looks at every node; whoever knows the node asks [`on_node`](Self::on_node).
    pub fn get(&self, instance: &InstanceIdent) -> Option<&InstanceProgress> {
        self.parts.values().find_map(|part| part.get(instance))
    }

    /// How an instance on a node is, if it has its place there.
    pub fn on_node(&self, node: &NodeId, instance: &InstanceIdent) -> Option<&InstanceProgress> {
        self.parts.get(&Some(node.clone()))?.get(instance)
    }

    /// Adds an instance, or says how it is now. It must not be there with another place.
    pub fn insert(&mut self, instance: InstanceIdent, progress: InstanceProgress) {
        let place = progress.node.clone();
        let part = Arc::make_mut(self.parts.entry(place.clone()).or_default());
        let is_failing = progress.error.is_some();
        part.insert(instance, progress);
        if is_failing {
            self.failing.insert(place);
        } else if self.failing.contains(&place) && part.values().all(|it| it.error.is_none()) {
            self.failing.remove(&place);
        }
    }

    /// From now on these are all instances of the part. Nothing changes if they were before.
    pub(crate) fn put(&mut self, place: Option<NodeId>, part: Part) {
        if self.parts.get(&place).is_some_and(|it| **it == part) {
            return;
        }
        match part.values().any(|it| it.error.is_some()) {
            true => drop(self.failing.insert(place.clone())),
            false => drop(self.failing.remove(&place)),
        }
        match part.is_empty() {
            true => drop(self.parts.remove(&place)),
            false => drop(self.parts.insert(place, Arc::new(part))),
        }
    }

    /// Nodes that have instances.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.parts.keys().flatten()
    }

    /// Instances with something wrong, as long as they are asked for.
    pub(crate) fn failing(&self) -> impl Iterator<Item = (&InstanceIdent, &InstanceProgress)> {
        let parts = self.failing.iter().filter_map(|it| self.parts.get(it));
        parts
            .flat_map(|part| part.iter())
            .filter(|(_, progress)| progress.error.is_some())
    }

    /// What differs from an earlier snapshot, by ident. Costs what is in the parts that are not shared with it, and a look at
    /// each node.
    pub fn changes_since(&self, old: &Self) -> Vec<InstanceChange> {
        let nothing = Part::new();
        let mut found: BTreeMap<&InstanceIdent, Option<&InstanceProgress>> = BTreeMap::new();
        for (before, now) in side_by_side(&old.parts, &self.parts) {
            if let (Some(before), Some(now)) = (before, now)
                && Arc::ptr_eq(before, now)
            {
                continue;
            }
            let before = before.map_or(&nothing, |it| &**it);
            let now = now.map_or(&nothing, |it| &**it);
            for (instance, progress) in now {
                if before.get(instance) != Some(progress) {
                    found.insert(instance, Some(progress));
                }
            }
            for instance in before.keys().filter(|it| !now.contains_key(*it)) {
                // It may have gone to another node.
                found.entry(instance).or_insert(None);
            }
        }
        let owned = |(instance, progress): (&InstanceIdent, Option<&InstanceProgress>)| {
            (instance.clone(), progress.cloned())
        };
        found.into_iter().map(owned).collect()
    }
}

/// The values of two maps, by key.
fn side_by_side<'a, K: Ord, V>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (Option<&'a V>, Option<&'a V>)> {
    let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = olds.next_if(|_| order.is_le()).map(|(_, it)| it);
        let new = news.next_if(|_| order.is_ge()).map(|(_, it)| it);
        Some((old, new))
    })
}

impl FromIterator<(InstanceIdent, InstanceProgress)> for InstanceTable {
    fn from_iter<T: IntoIterator<Item = (InstanceIdent, InstanceProgress)>>(all: T) -> Self {
        let mut table = Self::default();
        for (instance, progress) in all {
            table.insert(instance, progress);
        }
        table
    }
}

impl<'a> IntoIterator for &'a InstanceTable {
    type Item = (&'a InstanceIdent, &'a InstanceProgress);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use muster_api::domain::{AosCode, AosError, ItemId, ItemType, SubjectId};
    use proptest::prelude::*;

    use super::*;
    use crate::progress::Condition;

    fn ident(number: u64) -> InstanceIdent {
        InstanceIdent {
            item_id: ItemId::new("item").unwrap(),
            subject_id: SubjectId::new("subject").unwrap(),
            instance: number,
            item_type: ItemType::Service,
            preinstalled: false,
        }
    }

    fn progress(node: u8, version: u8) -> InstanceProgress {
        InstanceProgress {
            version: version.to_string(),
            node: (node > 0).then(|| NodeId::new(&format!("n{node}")).unwrap()),
            condition: Condition::Waiting,
            error: (version == 3).then(|| AosError::new(AosCode::Failed, "broken")),
        }
    }

    type Plain = BTreeMap<u64, (u8, u8)>;

    fn table(plain: &Plain) -> InstanceTable {
        let all = plain.iter();
        all.map(|(number, (node, version))| (ident(*number), progress(*node, *version)))
            .collect()
    }

    fn plain() -> impl Strategy<Value = Plain> {
        prop::collection::btree_map(0u64..12, (0u8..4, 0u8..4), 0..12)
    }

    #[test]
    fn parts_that_did_not_change_are_shared() {
        let before = table(&BTreeMap::from([(1, (1, 0)), (2, (2, 0))]));
        let mut now = before.clone();
        now.insert(ident(1), progress(1, 1));
        let second = Some(NodeId::new("n2").unwrap());
        assert!(Arc::ptr_eq(&before.parts[&second], &now.parts[&second]));
        assert_eq!(
            now.changes_since(&before),
            [(ident(1), Some(progress(1, 1)))]
        );
        let part = Part::from([(ident(2), progress(2, 0))]);
        now.put(second.clone(), part);
        assert!(
            Arc::ptr_eq(&before.parts[&second], &now.parts[&second]),
            "it is the same"
        );
    }

    proptest! {
        /// What is said to have changed, and nothing else, has.
        #[test]
        fn changes_lead_from_one_to_the_other(before in plain(), now in plain()) {
            let (old, new) = (table(&before), table(&now));
            prop_assert_eq!(new.len(), now.len());
            let mut expected = Vec::new();
            let all: BTreeSet<u64> = before.keys().chain(now.keys()).copied().collect();
            for number in all {
                if before.get(&number) != now.get(&number) {
                    let progress = now.get(&number).map(|(node, version)| progress(*node, *version));
                    expected.push((ident(number), progress));
                }
            }
            prop_assert_eq!(new.changes_since(&old), expected);
            let wrong = now.values().filter(|(_, version)| *version == 3).count();
            prop_assert_eq!(new.failing().count(), wrong);
        }

        /// A part that is put in the place of another is as if everything had been put in anew.
        #[test]
        fn a_part_that_is_put_is_all_of_its_node(before in plain(), now in plain()) {
            let mut parts = table(&before);
            for node in 0..4u8 {
                let part: Plain = now.iter().filter(|(_, (at, _))| *at == node).map(|(number, it)| (*number, *it)).collect();
                let part: Part = table(&part).iter().map(|(instance, it)| (instance.clone(), it.clone())).collect();
                parts.put(progress(node, 0).node, part);
            }
            prop_assert_eq!(parts, table(&now));
        }
    }
}
