//! What the launcher must know of an item to decide.

use std::time::Duration;

use muster_api::domain::ItemId;
use muster_runtime::RunPolicy;

use super::Known;
use crate::limits::Limits;

/// What an item says that matters for deciding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How ends are counted.
    pub policy: RunPolicy,
    /// So long it must run to be healthy; the node's own if not said.
    pub health_period: Option<Duration>,
    /// Between asking it to end and ending it; the node's own if not said.
    pub stop_timeout: Option<Duration>,
    /// It ends when the node is on its own for longer.
    pub offline_ttl: Option<Duration>,
    /// Items that it depends on or connects to: their instances start before it.
    pub after: Vec<ItemId>,
    /// Resources that it asks for and that only so many instances may have.
    pub scarce: Vec<String>,
}

impl Facts {
    /// What an instance is treated like until its item is known.
    pub(crate) fn unknown() -> Self {
        Self {
            policy: RunPolicy {
                restart_interval: Duration::from_secs(1),
                start_burst: 3,
                start_interval: Duration::from_secs(5),
            },
            health_period: None,
            stop_timeout: None,
            offline_ttl: None,
            after: Vec::new(),
            scarce: Vec::new(),
        }
    }

    /// What is known of a run whose image cannot say anything any more.
    pub(crate) fn remembered(known: &Known) -> Self {
        let unknown = Self::unknown();
        Self {
            policy: known.policy.unwrap_or(unknown.policy),
            offline_ttl: known.offline_ttl,
            ..unknown
        }
    }

    /// So long it must run to be healthy.
    pub(crate) fn healthy_after(&self, limits: &Limits) -> Duration {
        let period = self.health_period.unwrap_or(limits.health_period);
        period.max(self.policy.start_interval)
    }

    /// So long it must be up for its earlier ends to be forgiven.
    pub(crate) fn forgiven_after(&self, limits: &Limits) -> Duration {
        self.healthy_after(limits).max(limits.forgive_after)
    }
}
