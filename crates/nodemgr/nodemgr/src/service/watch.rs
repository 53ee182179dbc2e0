//! Machines as they change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::{Stream, stream};
use muster_machine_api::v1::{self, machine_news::News};
use muster_machines::{Record, Snapshot};
use muster_provider::MachineId;
use tokio::sync::watch::Receiver;

use crate::desk::Desk;

struct Watcher {
    desk: Desk,
    all: bool,
    snapshots: Receiver<Arc<Snapshot>>,
    /// What was told of each machine that is there.
    told: BTreeMap<MachineId, Arc<Record>>,
    queue: VecDeque<News>,
    synced: bool,
}

/// First every machine, then that those are all, then each as it changes.
pub(super) fn news(desk: Desk, all: bool) -> impl Stream<Item = v1::MachineNews> + Send {
    let mut snapshots = desk.machines().watch();
    snapshots.mark_changed();
    let watcher = Watcher {
        desk,
        all,
        snapshots,
        told: BTreeMap::new(),
        queue: VecDeque::new(),
        synced: false,
    };
    stream::unfold(watcher, |mut watcher| async {
        let news = watcher.next().await?;
        Some((v1::MachineNews { news: Some(news) }, watcher))
    })
}

impl Watcher {
    async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.queue.pop_front() {
                return Some(news);
            }
            // Without the registry there is nothing to tell any more.
            self.snapshots.changed().await.ok()?;
            let snapshot = Arc::clone(&self.snapshots.borrow_and_update());
            self.compare(&snapshot);
        }
    }

    fn compare(&mut self, snapshot: &Snapshot) {
        let wanted = |record: &Record| self.all || record.concerns_somebody();
        for (id, machine) in snapshot {
            let record = machine.record();
            let known = self.told.get(id);
            if !wanted(record) || known.is_some_and(|known| Arc::ptr_eq(known, record)) {
                continue;
            }
            self.told.insert(id.clone(), Arc::clone(record));
            let shown = Box::new(self.desk.show(machine));
            self.queue.push_back(News::Machine(shown));
        }
        let is_there = |id: &MachineId| snapshot.get(id).is_some_and(|it| wanted(it.record()));
        let gone: Vec<MachineId> = self
            .told
            .keys()
            .filter(|id| !is_there(id))
            .cloned()
            .collect();
        for id in gone {
            self.told.remove(&id);
            self.queue.push_back(News::Gone(id.to_string()));
        }
        if !self.synced {
            self.synced = true;
            self.queue.push_back(News::Synced(v1::Synced {}));
        }
    }
}
