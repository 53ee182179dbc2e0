//! Instances: which are active, which are not and why, and when nothing more is to be expected.

use std::time::Duration;

use muster_api::domain::{
    AosCode, AosError, InstanceIdent, InstanceInfo, InstanceState, InstanceStatus, NodeId,
};

use super::Machine;
use super::nodes::{Delivery, Link};
use super::saved::{Assigned, Fetch};
use crate::progress::{Condition, InstanceProgress};

/// An instance that has a place.
pub(super) struct Verdict {
    pub(super) condition: Condition,
    pub(super) error: Option<AosError>,
    /// Nothing more is to be expected.
    pub(super) is_settled: bool,
}

impl Verdict {
    fn waits(condition: Condition) -> Self {
        Self {
            condition,
            error: None,
            is_settled: false,
        }
    }

    fn told(status: &InstanceStatus, is_settled: bool) -> Self {
        Self {
            condition: Condition::Told(status.state),
            error: status.error.clone(),
            is_settled,
        }
    }
}

/// What a fresh status means for an instance that shall run in a version.
fn judge(info: &InstanceInfo, status: &InstanceStatus) -> Verdict {
    let is_wanted = status.version == info.version;
    let mut verdict = match status.state {
        InstanceState::Active => Verdict::told(status, is_wanted || status.error.is_some()),
        InstanceState::Failed => Verdict::told(status, true),
        InstanceState::Activating | InstanceState::Inactive => Verdict::told(status, false),
    };
    if status.state == InstanceState::Failed && verdict.error.is_none() {
        let message = "the node does not say why";
        verdict.error = Some(AosError::new(AosCode::Failed, message));
    }
    verdict
}

impl Machine {
    pub(super) fn verdict(&self, node: &NodeId, info: &InstanceInfo) -> Verdict {
        let view = self.nodes.get(node);
        let told = view.and_then(|it| it.told.get(&info.instance));
        if self.is_paused(node) {
            let condition = told.map_or(Condition::Paused, |it| Condition::Told(it.status.state));
            return Verdict {
                condition,
                error: None,
                is_settled: true,
            };
        }
        let Some(view) = view.filter(|it| it.link != Link::Lost) else {
            let message = format!("node {node} is lost");
            return Verdict {
                condition: Condition::Away,
                error: Some(AosError::new(AosCode::NotFound, message)),
                is_settled: true,
            };
        };
        if view.link != Link::Up {
            return Verdict::waits(Condition::Away);
        }
        match (&view.delivery, told) {
            (Delivery::Taken, Some(told)) if !told.is_stale => judge(info, &told.status),
            (Delivery::Refused { why, .. }, told) => Verdict {
                error: Some(why.clone()),
                ..Verdict::waits(
                    told.map_or(Condition::Waiting, |it| Condition::Told(it.status.state)),
                )
            },
            (_, Some(told)) => Verdict::waits(Condition::Told(told.status.state)),
            (_, None) => Verdict::waits(Condition::Waiting),
        }
    }

    /// Everything that has a place, with its node.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&NodeId, &InstanceInfo)> {
        let assigned: Option<&Assigned> = self.assigned.as_deref();
        let nodes = assigned.into_iter().flat_map(|it| &it.assignment.nodes);
        nodes.flat_map(|(node, share)| share.instances.iter().map(move |info| (node, info)))
    }

    /// Whether every instance is active, failed or beyond reach, or was waited for long enough.
    pub(super) fn is_settled(&mut self, now: Duration) -> bool {
        if !self.is_own() {
            // Nothing new was placed, so there is nothing to wait for.
            return true;
        }
        let unsettled = self.count_unsettled();
        // Only progress buys time: instances that come and go for ever must not.
        if unsettled < self.unsettled {
            self.unsettled = unsettled;
            self.waiting_since = now;
        }
        let is_overdue = self.waiting_since + self.limits.activation_patience <= now;
        self.is_overdue = is_overdue && unsettled > 0;
        is_overdue || unsettled == 0
    }

    /// Whether anything of the newest update is not as wanted.
    pub(super) fn has_failed(&self) -> bool {
        let Some(current) = &self.current else {
            return false;
        };
        let state = &current.state;
        let mut items = state.items.values();
        state.configuration.is_some()
            || state.placement.is_some()
            || items.any(|it| matches!(it.fetch, Fetch::Failed(_)))
            || (self.assigned.as_ref()).is_some_and(|it| !it.assignment.unplaced.is_empty())
            || self
                .placed()
                .any(|(node, info)| self.instance_progress(node, info).1.error.is_some())
    }

    /// How an instance is, for a report.
    pub(super) fn instance_progress(
        &self,
        node: &NodeId,
        info: &InstanceInfo,
    ) -> (InstanceIdent, InstanceProgress) {
        let verdict = self.verdict(node, info);
        let overdue = || {
            let message = format!("it is still {}", verdict.condition);
            AosError::new(AosCode::Timeout, message)
        };
        let error = match &verdict.error {
            None if self.is_overdue && !verdict.is_settled => Some(overdue()),
            error => error.clone(),
        };
        let progress = InstanceProgress {
            version: info.version.clone(),
            node: Some(node.clone()),
            condition: verdict.condition,
            error,
        };
        (info.instance.clone(), progress)
    }
}
