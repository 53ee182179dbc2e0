//! What outlives the launcher.

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosError, InstanceIdent, InstanceInfo};
use muster_runtime::RunId;

use crate::target::{EnvOverride, Target};

/// A version that failed while another was known to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What failed.
    pub target: Arc<Target>,
    /// Why.
    pub fault: AosError,
}

/// One instance on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// What the controller wants; `None` while it is on its way out.
    pub goal: Option<Arc<InstanceInfo>>,
    /// What last ran for a healthy period.
    pub good: Option<Arc<Target>>,
    /// What failed.
    pub rejected: Option<Rejected>,
    /// What was started and not yet stopped, under which number.
    pub running: Option<(Arc<Target>, RunId)>,
}

/// Something to write down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An instance is like this now.
    Put(InstanceIdent, Box<Row>),
    /// An instance is gone.
    Remove(InstanceIdent),
    /// These overrides hold.
    Overrides(Vec<EnvOverride>),
    /// The controller has been away for so long.
    Offline(Duration),
    /// The next start, of whichever instance, gets this number.
    NextRun(RunId),
}

/// Everything that was written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// The instances.
    pub rows: Vec<(InstanceIdent, Row)>,
    /// The overrides.
    pub overrides: Vec<EnvOverride>,
    /// How long the controller had been away.
    pub offline: Duration,
    /// The number of the next start.
    pub next_run: RunId,
}
