//! How the newest update goes.

use std::collections::BTreeMap;

use muster_api::domain::{AosCode, AosError, InstanceIdent, ItemState};

use super::saved::Fetch;
use super::vocabulary::UpdateStep;
use super::{Current, Machine};
use crate::document::Item;
use crate::progress::{Bytes, Condition, InstanceProgress, ItemProgress, Progress};

/// Of instances whose item cannot be had, so many of each are listed.
const LISTED: u64 = 1000;

impl Machine {
    /// How the newest update goes, per item and per instance.
    pub fn progress(&self) -> Progress {
        let Some(current) = &self.current else {
            return Progress::default();
        };
        let state = &current.state;
        let items = current.version.desired.items().values();
        let mut instances: BTreeMap<InstanceIdent, InstanceProgress> =
            current.without_item().into_iter().collect();
        let placed = self.placed();
        instances.extend(placed.map(|(node, info)| self.instance_progress(node, info)));
        if let Some(assigned) = &self.assigned {
            let unplaced = assigned.assignment.unplaced.iter();
            instances.extend(unplaced.map(|(ident, error)| {
                let usable = current.version.desired.items().get(&ident.item_id);
                let progress = InstanceProgress {
                    version: usable.map_or_else(String::new, |it| it.version.clone()),
                    node: None,
                    condition: Condition::Unplaced,
                    error: Some(error.clone()),
                };
                (ident.clone(), progress)
            }));
        }
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
