//! What the launcher says, merged until somebody listens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::{InstanceIdent, InstanceState, InstanceStatus};
use tokio::sync::Notify;

/// Statuses of all instances.
pub type Picture = BTreeMap<InstanceIdent, InstanceStatus>;

/// Enters what has changed into a picture. What is gone is said once, and belongs to no later picture.
pub fn enter(picture: &mut Picture, changed: &[InstanceStatus]) {
    for status in changed {
        if status.state == InstanceState::Inactive && status.error.is_none() {
            picture.remove(&status.instance);
        } else {
            picture.insert(status.instance.clone(), status.clone());
        }
    }
}

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
    changed: Picture,
    settled: Option<Picture>,
    closed: bool,
}

/// The taker's end. What is not taken is merged: per instance only the last status stays, a set that has settled is told only
/// until there is a new one, and with what has changed since.
#[derive(Debug, Clone, Default)]
pub struct Reports {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    first: Vec<InstanceStatus>,
    pending: Mutex<Pending>,
    news: Notify,
}

impl Reports {
    /// Of a launcher that begins with these.
    pub(crate) fn beginning_with(first: Vec<InstanceStatus>) -> Self {
        let shared = Arc::new(Shared {
            first,
            ..Shared::default()
        });
        Self { shared }
    }

    /// All instances as they were found at the start, before there was any report.
    #[must_use]
    pub fn first(&self) -> &[InstanceStatus] {
        &self.shared.first
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The guarded code does not panic; if it ever did, what is pending is still whole.
        self.shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changed(&self, statuses: Vec<InstanceStatus>) {
        let mut pending = self.pending();
        if let Some(all) = &mut pending.settled {
            // What changed is told first: the whole that follows must not take it back.
            enter(all, &statuses);
        }
        for status in statuses {
            pending.changed.insert(status.instance.clone(), status);
        }
        drop(pending);
        self.shared.news.notify_one();
    }

    pub(crate) fn settled(&self, all: Vec<InstanceStatus>) {
        let all = all.into_iter().map(|it| (it.instance.clone(), it));
        self.pending().settled = Some(all.collect());
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
            return Some(Some(Report::Settled(all.into_values().collect())));
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
    use muster_api::domain::{AosCode, AosError};

    use super::*;
    use crate::decide::tests::info;

    fn status(number: u64, state: InstanceState) -> InstanceStatus {
        let info = info(number, 1);
        InstanceStatus {
            instance: info.instance,
            version: info.version,
            runtime_id: Some(info.runtime_id),
            manifest_digest: Some(info.manifest_digest),
            env_vars: Vec::new(),
            state,
            error: None,
        }
    }

    #[tokio::test]
    async fn what_changes_after_a_set_has_settled_is_part_of_what_is_told_of_the_set() {
        let reports = Reports::default();
        let active = |number| status(number, InstanceState::Active);
        reports.settled(vec![active(1), active(2), active(3)]);
        let mut given_up = status(1, InstanceState::Failed);
        given_up.error = Some(AosError::new(AosCode::Failed, "it ended too often"));
        let gone = status(2, InstanceState::Inactive);
        let changed = vec![given_up.clone(), gone];
        reports.changed(changed.clone());
        assert_eq!(reports.next().await, Some(Report::Changed(changed)));
        let all = vec![given_up, active(3)];
        assert_eq!(reports.next().await, Some(Report::Settled(all)));
    }

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
