//! What the launcher says, merged until somebody listens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::{InstanceIdent, InstanceStatus};
use tokio::sync::Notify;

/// One message of the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// These have changed.
    Changed(Vec<InstanceStatus>),
    /// The last update, or what was taken over at the start, has settled; these are all instances.
    Settled(Vec<InstanceStatus>),
}

#[derive(Debug, Default)]
struct Pending {
    changed: BTreeMap<InstanceIdent, InstanceStatus>,
    settled: Option<Vec<InstanceStatus>>,
    closed: bool,
}

/// The taker's end. What is not taken is merged: per instance only the last status stays, and a set that has settled is told only
/// until there is a new one.
#[derive(Debug, Clone, Default)]
pub struct Reports {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    news: Notify,
}

impl Reports {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The guarded code does not panic; if it ever did, what is pending is still whole.
        self.shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changed(&self, statuses: Vec<InstanceStatus>) {
        let mut pending = self.pending();
        for status in statuses {
            pending.changed.insert(status.instance.clone(), status);
        }
        drop(pending);
        self.shared.news.notify_one();
    }

    pub(crate) fn settled(&self, all: Vec<InstanceStatus>) {
        self.pending().settled = Some(all);
        self.shared.news.notify_one();
    }

    /// There is a new set: that an earlier one has settled is no news any more.
    pub(crate) fn supersede(&self) {
        self.pending().settled = None;
    }

    pub(crate) fn close(&self) {
        self.pending().closed = true;
        self.shared.news.notify_one();
    }

    fn take(&self) -> Option<Option<Report>> {
        let mut pending = self.pending();
        if !pending.changed.is_empty() {
            let changed = std::mem::take(&mut pending.changed);
            return Some(Some(Report::Changed(changed.into_values().collect())));
        }
        if let Some(all) = pending.settled.take() {
            return Some(Some(Report::Settled(all)));
        }
        pending.closed.then_some(None)
    }

    /// The next message; `None` when the launcher has ended. For one taker at a time; safe to cancel.
    pub async fn next(&self) -> Option<Report> {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.shared.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn that_a_set_has_settled_is_told_until_there_is_a_new_one() {
        let reports = Reports::default();
        reports.settled(Vec::new());
        assert_eq!(reports.next().await, Some(Report::Settled(Vec::new())));
        reports.settled(Vec::new());
        reports.supersede();
        reports.close();
        assert_eq!(reports.next().await, None);
    }
}
