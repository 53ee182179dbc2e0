//! Lists, a page at a time.

use muster_api::domain::{
    InstanceFilter, InstanceIdent, ItemId, ItemType, NetworkId, NodeId, SubjectId,
};

use super::{InstanceRecord, ItemKey, UnitState};

/// How many objects are looked at for each that fits on a page: a filter that matches little ends a page early, and holds
/// nobody up.
const LOOK_AT: usize = 8;

/// A page, and from where the next one goes on.
#[derive(Debug)]
pub(crate) struct Listed<K> {
    pub(crate) keys: Vec<K>,
    pub(crate) next: Option<K>,
}

fn page<'s, K: Clone + 's>(mut keys: impl Iterator<Item = &'s K>, limit: usize) -> Listed<K> {
    let found: Vec<K> = keys.by_ref().take(limit).cloned().collect();
    let next = keys.next().and_then(|_| found.last().cloned());
    Listed { keys: found, next }
}

impl UnitState {
    pub(crate) fn list_nodes(&self, after: Option<&NodeId>, limit: usize) -> Listed<NodeId> {
        page(self.nodes.after(after).map(|(key, _)| key), limit)
    }

    pub(crate) fn list_items(&self, after: Option<&ItemKey>, limit: usize) -> Listed<ItemKey> {
        page(self.items.after(after).map(|(key, _)| key), limit)
    }

    pub(crate) fn list_networks(
        &self,
        after: Option<&NetworkId>,
        limit: usize,
    ) -> Listed<NetworkId> {
        page(self.networks.after(after).map(|(key, _)| key), limit)
    }

    /// Instances that match, of one node, or of all. `item` is the one that the filter asks for.
    pub(crate) fn list_instances(
        &self,
        filter: &InstanceFilter,
        item: Option<&ItemId>,
        node: Option<&NodeId>,
        after: Option<&InstanceIdent>,
        limit: usize,
    ) -> Listed<InstanceIdent> {
        let first = item.and_then(first_of);
        let all: Box<dyn Iterator<Item = &InstanceIdent>> = match (node, after, &first) {
            (Some(node), after, _) => {
                let placed = self.placed.get(node).into_iter().flatten();
                Box::new(placed.filter(move |ident| after.is_none_or(|after| *ident > after)))
            }
            (None, None, Some(first)) => Box::new(self.instances.from(first).map(key)),
            (None, after, _) => Box::new(self.instances.after(after).map(key)),
        };
        let mut all = all
            .take_while(|ident| item.is_none_or(|item| *item == ident.item_id || node.is_some()));
        let (mut keys, mut last) = (Vec::new(), None);
        for ident in all.by_ref().take(limit * LOOK_AT) {
            last = Some(ident);
            if filter.matches(ident) {
                keys.push(ident.clone());
                if keys.len() == limit {
                    break;
                }
            }
        }
        let next = all.next().and(last).cloned();
        Listed { keys, next }
    }
}

fn key<'s>((key, _): (&'s InstanceIdent, &'s InstanceRecord)) -> &'s InstanceIdent {
    key
}

/// Not after any instance of the item: no subject's id comes before a space.
fn first_of(item: &ItemId) -> Option<InstanceIdent> {
    Some(InstanceIdent {
        item_id: item.clone(),
        subject_id: SubjectId::new(" ").ok()?,
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    })
}
