//! Items: which are there, which are on their way, which cannot be had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosCode, AosError, ItemId};

use super::saved::{Fetch, ItemRecord};
use super::vocabulary::{Action, FlightId, UpdateStep};
use super::{Current, Machine};
use crate::document::{DesiredStatus, Item};
use crate::progress::Bytes;

/// A download under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) item: Item,
    pub(super) bytes: Bytes,
    /// When it last gave a sign of life.
    pub(super) alive: Duration,
}

impl Current {
    /// Each item in the version that can run.
    pub(super) fn usable(&self) -> BTreeMap<ItemId, Item> {
        let pick = |item: &Item| match self.state.items.get(&item.id) {
            Some(record) if record.fetch == Fetch::Ready => Some(item.clone()),
            Some(record) => record.fallback.clone(),
            None => None,
        };
        let items = self.version.desired.items().values();
        items
            .filter_map(|item| Some((item.id.clone(), pick(item)?)))
            .collect()
    }

    /// What runs, and what is wanted.
    pub(super) fn needed(&self) -> BTreeSet<Item> {
        let wanted = self.version.desired.items().values().cloned();
        wanted.chain(self.usable().into_values()).collect()
    }
}

impl Machine {
    /// The items of a new wish: what is there stays there, what is on its way goes on, the rest is cancelled. When the same
    /// is tried again, everything is asked for again: what was there may be what failed.
    pub(super) fn take_over(&mut self, desired: &DesiredStatus) -> BTreeMap<ItemId, ItemRecord> {
        let unwanted: Vec<FlightId> = (self.downloads.iter())
            .filter(|(_, flight)| desired.items().get(&flight.item.id) != Some(&flight.item))
            .map(|(id, _)| *id)
            .collect();
        for id in unwanted {
            self.downloads.remove(&id);
            self.turn.actions.push(Action::Cancel(id));
        }
        let before = self.current.as_ref().map(Current::usable);
        let before = before.unwrap_or_default();
        let current = self.current.as_ref();
        let is_retry = current.is_some_and(|it| *it.version.desired == *desired);
        let record = |item: &Item| match before.get(&item.id) {
            Some(there) if there == item && !is_retry => ItemRecord {
                fetch: Fetch::Ready,
                fallback: None,
            },
            other => ItemRecord {
                fetch: Fetch::Wanted,
                fallback: other.cloned(),
            },
        };
        let items = desired.items().values();
        items.map(|item| (item.id.clone(), record(item))).collect()
    }

    /// Begins downloads, as many as may be at a time, and gives those up that bring nothing.
    pub(super) fn start_downloads(&mut self, now: Duration) {
        let stall = self.limits.download_stall;
        let stalled: Vec<FlightId> = (self.downloads.iter())
            .filter(|(_, flight)| flight.alive + stall <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in stalled {
            self.turn.actions.push(Action::Cancel(id));
            let message = format!("the download brought nothing for {} s", stall.as_secs());
            self.downloaded(id, Err(AosError::new(AosCode::Timeout, message)));
        }
        // What is being removed must not be fetched meanwhile.
        if self.at() != UpdateStep::Downloading || self.acting.retain.is_some() {
            return;
        }
        let Some(current) = &self.current else { return };
        let flying: BTreeSet<&ItemId> = self.downloads.values().map(|it| &it.item.id).collect();
        let room = self.limits.downloads.max(1).saturating_sub(flying.len());
        let next: Vec<Item> = (current.version.desired.items().values())
            .filter(|item| !flying.contains(&item.id))
            .filter(|item| {
                let record = current.state.items.get(&item.id);
                record.is_some_and(|it| it.fetch == Fetch::Wanted)
            })
            .take(room)
            .cloned()
            .collect();
        let desired = Arc::clone(&current.version.desired);
        for item in next {
            let flight = FlightId(self.next_flight);
            self.next_flight += 1;
            self.turn.actions.push(Action::Download {
                flight,
                item: item.clone(),
                desired: Arc::clone(&desired),
            });
            self.downloads.insert(
                flight,
                Flight {
                    item,
                    bytes: Bytes::default(),
                    alive: now,
                },
            );
        }
    }

    pub(super) fn downloads_are_over(&self) -> bool {
        let Some(current) = &self.current else {
            return true;
        };
        let mut records = current.state.items.values();
        records.all(|it| it.fetch != Fetch::Wanted)
    }

    pub(super) fn download_goes_on(&mut self, id: FlightId, bytes: Bytes, now: Duration) {
        if let Some(flight) = self.downloads.get_mut(&id) {
            flight.bytes = bytes;
            flight.alive = now;
        }
    }

    pub(super) fn downloaded(&mut self, id: FlightId, result: Result<(), AosError>) {
        // The end of a download that was cancelled says nothing.
        let Some(flight) = self.downloads.remove(&id) else {
            return;
        };
        let Some(current) = &mut self.current else {
            return;
        };
        if let Some(record) = current.state.items.get_mut(&flight.item.id) {
            record.fetch = match result {
                Ok(()) => Fetch::Ready,
                Err(error) => Fetch::Failed(error),
            };
            self.changed = true;
        }
    }
}
