//! How the newest update goes.

use std::collections::BTreeSet;

use muster_api::domain::{AosCode, AosError, InstanceIdent, ItemState, NodeId};

use super::saved::Fetch;
use super::vocabulary::UpdateStep;
use super::{Current, Machine};
use crate::document::Item;
use crate::progress::{
    Bytes, Condition, InstanceProgress, InstanceTable, ItemProgress, Part, Progress,
};

/// Of instances whose item cannot be had, so many of each are listed.
const LISTED: u64 = 1000;

impl Machine {
    /// How the newest update goes, per item and per instance: everything is looked at.
    pub fn progress(&self) -> Progress {
        let mut instances = InstanceTable::default();
        if let Some(current) = &self.current {
            for node in self.nodes_with_instances() {
                instances.put(Some(node.clone()), self.part_of(node));
            }
            instances.put(None, self.without_place(current));
        }
        self.with_instances(instances)
    }

    /// The same, from the snapshot before: looked at is what may have changed since.
    pub fn snapshot(&mut self) -> Progress {
        let Some(current) = &self.current else {
            return Progress::default();
        };
        let mut instances = std::mem::take(&mut self.reported);
        instances.put(None, self.without_place(current));
        // Whether it is too late concerns everybody who is not settled.
        let was_overdue = std::mem::replace(&mut self.reported_overdue, self.is_overdue);
        let stale = match self.books.take_unreported() {
            Some(nodes) if was_overdue == self.is_overdue => nodes,
            _ => {
                let known = instances.nodes().chain(self.nodes_with_instances());
                known.cloned().collect()
            }
        };
        for node in stale {
            let part = self.part_of(&node);
            instances.put(Some(node), part);
        }
        self.reported = instances.clone();
        self.with_instances(instances)
    }

    fn nodes_with_instances(&self) -> impl Iterator<Item = &NodeId> {
        let assigned = self.assigned.iter();
        assigned.flat_map(|it| it.assignment.nodes.keys())
    }

    /// How the instances are that have their place on a node.
    fn part_of(&self, node: &NodeId) -> Part {
        let assigned = self.assigned.as_deref();
        let share = assigned.and_then(|it| it.assignment.nodes.get(node));
        let infos = share.into_iter().flat_map(|it| &it.instances);
        infos
            .map(|info| self.instance_progress(node, info))
            .collect()
    }

    /// How the instances are that have no place.
    fn without_place(&self, current: &Current) -> Part {
        let mut part: Part = current.without_item().into_iter().collect();
        if !part.is_empty() {
            // What runs of an earlier wish has a place.
            let placed: BTreeSet<&InstanceIdent> =
                self.placed().map(|(_, info)| &info.instance).collect();
            part.retain(|instance, _| !placed.contains(instance));
        }
        let assigned = self.assigned.iter();
        let unplaced = assigned.flat_map(|it| &it.assignment.unplaced);
        part.extend(unplaced.map(|(ident, error)| {
            let usable = current.version.desired.items().get(&ident.item_id);
            let progress = InstanceProgress {
                version: usable.map_or_else(String::new, |it| it.version.clone()),
                node: None,
                condition: Condition::Unplaced,
                error: Some(error.clone()),
            };
            (ident.clone(), progress)
        }));
        part
    }

    fn with_instances(&self, instances: InstanceTable) -> Progress {
        let Some(current) = &self.current else {
            return Progress::default();
        };
        let state = &current.state;
        let items = current.version.desired.items().values();
        Progress {
            update: Some(current.version.id),
            step: state.step,
            done: state.done,
            items: items
                .map(|item| (item.id.clone(), self.item_progress(current, item)))
                .collect(),
            instances,
            configuration: state.configuration.clone(),
            placement: state.placement.clone(),
        }
    }

    fn item_progress(&self, current: &Current, item: &Item) -> ItemProgress {
        let mut flights = self.downloads.values();
        let flight = flights.find(|it| it.item.id == item.id);
        let fetch = current.state.items.get(&item.id).map(|it| &it.fetch);
        let (state, error) = match (fetch, current.state.step) {
            (Some(Fetch::Failed(error)), _) => (ItemState::Failed, Some(error.clone())),
            (Some(Fetch::Wanted) | None, _) => (ItemState::Downloading, None),
            (Some(Fetch::Ready), UpdateStep::Downloading | UpdateStep::Pending) => {
                (ItemState::Pending, None)
            }
            (Some(Fetch::Ready), UpdateStep::Installing | UpdateStep::Launching) => {
                (ItemState::Installing, None)
            }
            (Some(Fetch::Ready), _) => (ItemState::Installed, None),
        };
        ItemProgress {
            version: item.version.clone(),
            state,
            bytes: flight.map_or_else(Bytes::default, |it| it.bytes),
            error,
        }
    }
}

impl Current {
    /// Instances that nobody was asked to place, because their item cannot be had in any version.
    fn without_item(&self) -> Vec<(InstanceIdent, InstanceProgress)> {
        let usable = self.usable();
        let mut found = Vec::new();
        for (key, wanted) in self.version.desired.instances() {
            let record = self.state.items.get(&key.item);
            let Some(Fetch::Failed(error)) = record.map(|it| &it.fetch) else {
                continue;
            };
            let Some(item) = self.version.desired.items().get(&key.item) else {
                continue;
            };
            if usable.contains_key(&key.item) {
                continue;
            }
            for instance in 0..wanted.count.min(LISTED) {
                let ident = InstanceIdent {
                    item_id: key.item.clone(),
                    subject_id: key.subject.clone(),
                    instance,
                    item_type: item.kind,
                    preinstalled: false,
                };
                let message = format!("item {} cannot be had: {error}", key.item);
                let progress = InstanceProgress {
                    version: String::new(),
                    node: None,
                    condition: Condition::Unplaced,
                    error: Some(AosError::new(AosCode::NotFound, message)),
                };
                found.push((ident, progress));
            }
        }
        found
    }
}
