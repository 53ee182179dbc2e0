//! What leaves the table, and when: first to the disk, then to observers.

use std::time::Duration;

use muster_api::domain::NodeId;

use super::{At, Batch, Link, NodeTable, Publication};
use crate::record::NodeRecord;

impl NodeTable {
    /// What to store now, if anything. Nothing more is given until [`NodeTable::end_write`].
    pub fn begin_write(&mut self, at: At) -> Option<Batch> {
        if self.in_flight.is_some() {
            return None;
        }
        let mut batch = Batch {
            forget: std::mem::take(&mut self.forgotten),
            ..Batch::default()
        };
        while let Some((due, _)) = self.due.first()
            && *due <= at.now
        {
            let Some((_, id)) = self.due.pop_first() else {
                break;
            };
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            let record = node.record();
            if node.outlet.begin(record.clone()) {
                let local = matches!(node.link, Link::Local);
                if local {
                    &mut batch.local
                } else {
                    &mut batch.store
                }
                .push(record);
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.in_flight = Some(batch.clone());
        Some(batch)
    }

    /// The last batch is on the disk, or could not be stored and is tried again later. Gives what is
    /// to be shown, in order.
    pub fn end_write(&mut self, at: At, stored: bool) -> Vec<Publication> {
        let Some(batch) = self.in_flight.take() else {
            return Vec::new();
        };
        if !stored {
            self.forgotten.extend(batch.forget.iter().cloned());
        }
        for record in batch.records() {
            let id = &record.info.node_id;
            let Some(node) = self.nodes.get_mut(id) else {
                continue;
            };
            let before = node.outlet.due();
            let current = node.record();
            if stored {
                node.outlet.shown(at.now, self.limits.damping, &current);
            } else {
                node.outlet.failed(at.now + self.limits.store_retry);
            }
            let after = node.outlet.due();
            self.reschedule(id, before, after);
        }
        if !stored {
            return Vec::new();
        }
        let gone = |id: &NodeId| Publication::Forgotten(id.clone());
        let changed = |record: &NodeRecord| Publication::Changed(record.clone());
        let forgotten = batch.forget.iter().map(gone);
        forgotten.chain(batch.records().map(changed)).collect()
    }

    /// When [`NodeTable::begin_write`] has something to give, once nothing is in flight.
    pub fn next_due(&self) -> Option<Duration> {
        if self.in_flight.is_some() {
            return None;
        }
        if !self.forgotten.is_empty() {
            return Some(Duration::ZERO);
        }
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether what became of a node is to be stored and shown without delay.
    pub fn is_due(&self, id: &NodeId, now: Duration) -> bool {
        let due = self.nodes.get(id).and_then(|node| node.outlet.due());
        due.is_some_and(|due| due <= now)
    }

    pub(super) fn touch(&mut self, at: At, id: &NodeId, urgent: bool) {
        if let Some(node) = self.nodes.get_mut(id) {
            let before = node.outlet.due();
            let current = node.record();
            node.outlet.touch(at.now, &current, urgent);
            let after = node.outlet.due();
            self.reschedule(id, before, after);
        }
    }

    fn reschedule(&mut self, id: &NodeId, before: Option<Duration>, after: Option<Duration>) {
        if before != after {
            if let Some(before) = before {
                self.due.remove(&(before, id.clone()));
            }
            if let Some(after) = after {
                self.due.insert((after, id.clone()));
            }
        }
    }
}
