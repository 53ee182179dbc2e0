//! The handle that everybody else has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::{AlertRules, InstanceIdent, NodeMonitoring};
use tokio::sync::{Notify, watch};

use crate::metrics::UseMetrics;
use crate::snapshot::Snapshot;
use crate::watch::InstanceWatch;

/// What the monitor tells.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) average: Arc<NodeMonitoring>,
    pub(crate) counts: Counts,
}

/// What the monitor counts about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Polls that were made.
    pub(crate) polls: u64,
    /// Values that could not be read.
    pub(crate) unread: u64,
}

/// What somebody wants for one instance.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// What is known of it ends first.
    pub(crate) ends: bool,
    /// Then it is watched so.
    pub(crate) watch: Option<InstanceWatch>,
}

/// What somebody wants and the monitor does not know yet. One entry per instance, so it cannot grow without instances.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) instances: BTreeMap<InstanceIdent, Wish>,
    pub(crate) node_rules: Option<AlertRules>,
    /// Nobody will take them any more.
    over: bool,
}

/// Where handles leave wishes and the monitor finds them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    wishes: Mutex<Wishes>,
    changed: Notify,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Wishes> {
        // Nothing panics while it is held; if it did, what is inside is still whole.
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.lock();
        if !wishes.over {
            change(&mut wishes);
            self.changed.notify_one();
        }
    }

    /// All wishes since the last time.
    pub(crate) fn take(&self) -> Wishes {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until there may be some.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes no more wishes.
    pub(crate) fn close(&self) {
        *self.lock() = Wishes {
            over: true,
            ..Wishes::default()
        };
    }
}

/// Everybody's way to the monitor. Nothing here waits; wishes of a monitor that has ended are void.
#[derive(Clone)]
pub struct MonitorHandle {
    inbox: Arc<Inbox>,
    published: watch::Receiver<Option<Published>>,
}

impl fmt::Debug for MonitorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitorHandle").finish_non_exhaustive()
    }
}

impl MonitorHandle {
    pub(crate) fn new(inbox: Arc<Inbox>, published: watch::Receiver<Option<Published>>) -> Self {
        Self { inbox, published }
    }

    /// From now on this instance is measured, and so. Of an instance that is watched already, averages go on, and so do alerts
    /// whose rules are the same.
    pub fn watch(&self, watch: InstanceWatch) {
        self.inbox.add(|wishes| {
            let wish = wishes.instances.entry(watch.ident.clone()).or_default();
            wish.watch = Some(watch);
        });
    }

    /// From now on this instance is not measured. Its open alerts fall.
    pub fn unwatch(&self, instance: &InstanceIdent) {
        self.inbox.add(|wishes| {
            let ends = Wish {
                ends: true,
                watch: None,
            };
            wishes.instances.insert(instance.clone(), ends);
        });
    }

    /// What is too much for the node. Open alerts of rules that are others now fall.
    pub fn set_node_rules(&self, rules: AlertRules) {
        self.inbox.add(|wishes| wishes.node_rules = Some(rules));
    }

    /// The running averages as of the last poll; `None` before the first.
    #[must_use]
    pub fn average(&self) -> Option<NodeMonitoring> {
        let published = self.published.borrow();
        published
            .as_ref()
            .map(|published| NodeMonitoring::clone(&published.average))
    }

    /// The last snapshot; `None` before the first poll.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.published().map(|published| published.snapshot)
    }

    /// The last snapshot, if there is one, and those that follow.
    #[must_use]
    pub fn subscribe(&self) -> Snapshots {
        let mut published = self.published.clone();
        published.mark_changed();
        Snapshots { published }
    }

    /// The last snapshot as OpenMetrics text, whole with its end mark.
    #[must_use]
    pub fn encode(&self) -> String {
        UseMetrics::new(self.clone()).text()
    }

    #[cfg(test)]
    pub(crate) fn wishes(&self) -> Wishes {
        self.inbox.take()
    }

    pub(crate) fn published(&self) -> Option<Published> {
        self.published.borrow().clone()
    }
}

/// Snapshots as they are taken. Whoever is slower than the monitor gets the newest, and misses those before it.
#[derive(Debug)]
pub struct Snapshots {
    published: watch::Receiver<Option<Published>>,
}

impl Snapshots {
    /// Waits for one that was not given before; `None` when the monitor has ended. Safe to cancel.
    pub async fn next(&mut self) -> Option<Arc<Snapshot>> {
        loop {
            self.published.changed().await.ok()?;
            let published = self.published.borrow_and_update();
            if let Some(published) = published.as_ref() {
                return Some(published.snapshot.clone());
            }
        }
    }
}
