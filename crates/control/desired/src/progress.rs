//! How an update goes, for people and for the cloud.

mod table;

use std::collections::BTreeMap;
use std::fmt;

use muster_api::domain::{AosError, InstanceState, ItemId, ItemState, NodeId};

pub(crate) use self::table::Part;
pub use self::table::{InstanceChange, InstanceTable};
use crate::machine::{UpdateId, UpdateStep};

/// How much of something is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// So much.
    pub done: u64,
    /// Of so much; 0 while not known.
    pub total: u64,
}

/// How the newest update goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Which one; `None` before the first. A newer one has taken the place of all with a lower number.
    pub update: Option<UpdateId>,
    /// What is being done.
    pub step: UpdateStep,
    /// It has come to its end. Stays so while instances are placed anew.
    pub done: bool,
    /// What became of each item.
    pub items: BTreeMap<ItemId, ItemProgress>,
    /// What became of each instance.
    pub instances: InstanceTable,
    /// Why the Unit's configuration, or the state of nodes, is not as wanted.
    pub configuration: Option<AosError>,
    /// Why instances could not be placed at all.
    pub placement: Option<AosError>,
}

impl Progress {
    /// What went wrong, one line each; empty while all is well.
    pub fn failures(&self) -> Vec<String> {
        self.first_failures(usize::MAX)
    }

    /// The first of [`failures`](Self::failures). Costs no more than the failures that are asked for, and a look at each item.
    pub fn first_failures(&self, count: usize) -> Vec<String> {
        let mut failures = Vec::new();
        let whole = [
            ("configuration", &self.configuration),
            ("placement", &self.placement),
        ];
        for (what, error) in whole {
            failures.extend(error.as_ref().map(|error| format!("{what}: {error}")));
        }
        for (id, item) in &self.items {
            let error = item.error.as_ref();
            failures.extend(error.map(|error| format!("item {id} {}: {error}", item.version)));
        }
        let rest = count.saturating_sub(failures.len());
        for (ident, instance) in self.instances.failing().take(rest) {
            let error = instance.error.as_ref();
            failures.extend(error.map(|error| format!("instance {ident}: {error}")));
        }
        failures.truncate(count);
        failures
    }
}

/// How an item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemProgress {
    /// The version that is wanted.
    pub version: String,
    /// How it is.
    pub state: ItemState,
    /// How much of it is there.
    pub bytes: Bytes,
    /// Why it cannot be had.
    pub error: Option<AosError>,
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceProgress {
    /// The version that it shall run; empty if there is none that could.
    pub version: String,
    /// Where it is.
    pub node: Option<NodeId>,
    /// How it is.
    pub condition: Condition,
    /// What is wrong.
    pub error: Option<AosError>,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// No node can run it.
    Unplaced,
    /// Its node has not told yet.
    Waiting,
    /// Its node is paused and keeps what it runs.
    Paused,
    /// Its node is away.
    Away,
    /// What its node says.
    Told(InstanceState),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unplaced => "unplaced",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Away => "away",
            Self::Told(state) => state.as_str(),
        })
    }
}
