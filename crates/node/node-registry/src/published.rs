//! What observers see: the last stored state of every node, and changes in order.
//!
//! There is no queue per observer. Every change of a node takes the next number and replaces the one
//! before; an observer keeps the number it has seen and asks for the next higher. A slow one therefore
//! skips states that were replaced meanwhile, never the last, and costs nothing while it waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::NodeId;
use tokio::sync::watch;

use crate::record::NodeRecord;
use crate::table::Publication;

#[derive(Debug, Default)]
struct Nodes {
    by_number: BTreeMap<u64, NodeRecord>,
    numbers: BTreeMap<NodeId, u64>,
    last: u64,
}

impl Nodes {
    fn take(&mut self, publication: Publication) {
        match publication {
            Publication::Changed(record) => {
                self.last += 1;
                let id = record.info.node_id.clone();
                if let Some(before) = self.numbers.insert(id, self.last) {
                    self.by_number.remove(&before);
                }
                self.by_number.insert(self.last, record);
            }
            Publication::Forgotten(id) => {
                if let Some(before) = self.numbers.remove(&id) {
                    self.by_number.remove(&before);
                }
            }
        }
    }
}

/// The registry's end.
#[derive(Debug)]
pub(crate) struct Publisher {
    nodes: Arc<Mutex<Nodes>>,
    last: watch::Sender<u64>,
}

/// The observers' end; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    nodes: Arc<Mutex<Nodes>>,
    last: watch::Receiver<u64>,
}

pub(crate) fn published(records: impl Iterator<Item = NodeRecord>) -> (Publisher, Published) {
    let mut nodes = Nodes::default();
    records.for_each(|record| nodes.take(Publication::Changed(record)));
    let (sender, receiver) = watch::channel(nodes.last);
    let nodes = Arc::new(Mutex::new(nodes));
    (
        Publisher {
            nodes: Arc::clone(&nodes),
            last: sender,
        },
        Published {
            nodes,
            last: receiver,
        },
    )
}

fn lock(nodes: &Mutex<Nodes>) -> MutexGuard<'_, Nodes> {
    // Every change is complete before anything can panic.
    nodes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Publisher {
    pub(crate) fn publish(&self, publications: Vec<Publication>) {
        let last = {
            let mut nodes = lock(&self.nodes);
            publications.into_iter().for_each(|one| nodes.take(one));
            nodes.last
        };
        self.last.send_replace(last);
    }
}

impl Published {
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        lock(&self.nodes).numbers.keys().cloned().collect()
    }

    pub(crate) fn get(&self, id: &str) -> Option<NodeRecord> {
        let nodes = lock(&self.nodes);
        let number = nodes.numbers.get(id)?;
        nodes.by_number.get(number).cloned()
    }

    pub(crate) fn subscribe(&self) -> NodeChanges {
        NodeChanges {
            published: self.clone(),
            seen: 0,
        }
    }
}

/// Every node, and then every change of one, as far as its reader keeps up: a reader that does not
/// gets the latest state of each node that changed.
#[derive(Debug)]
pub struct NodeChanges {
    published: Published,
    seen: u64,
}

impl NodeChanges {
    /// The next node that is new to this reader; nothing when the registry has ended. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Option<NodeRecord> {
        loop {
            self.published.last.borrow_and_update();
            if let Some(record) = self.try_next() {
                return Some(record);
            }
            self.published.last.changed().await.ok()?;
        }
    }

    /// The next node that is new to this reader, if there is one already.
    pub fn try_next(&mut self) -> Option<NodeRecord> {
        let nodes = lock(&self.published.nodes);
        let (number, record) = nodes.by_number.range(self.seen + 1..).next()?;
        self.seen = *number;
        Some(record.clone())
    }
}

#[cfg(test)]
mod tests;
