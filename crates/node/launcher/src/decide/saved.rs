//! What outlives the launcher.

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosError, InstanceIdent, InstanceInfo};
use muster_runtime::{RunId, RunPolicy};

pub use crate::crashes::Crashes;
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
    /// What has to be known of that, whatever becomes of its image.
    pub known: Known,
    /// What it has failed with so far.
    pub setback: Setback,
}

/// What is known of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// How many of its ends were counted.
    pub ends: u32,
    /// Its item may run on its own for so long.
    pub offline_ttl: Option<Duration>,
    /// How its ends are counted; `None` in records of versions that did not keep it.
    pub policy: Option<RunPolicy>,
}

/// How an instance has failed since that was last forgiven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setback {
    /// How often.
    pub crashes: Crashes,
    /// It was given up for so long, and for this reason.
    pub given_up: Option<(Duration, AosError)>,
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
    /// The node has been on its own for so long.
    Offline(Duration),
    /// A controller of this node has told of a cloud.
    KnowsCloud,
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
    /// How long the node had been on its own.
    pub offline: Duration,
    /// Whether a controller of this node ever told of a cloud.
    pub knows_cloud: bool,
    /// The number of the next start.
    pub next_run: RunId,
}
