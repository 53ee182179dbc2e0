//! What outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{AosError, ItemId};
use muster_balance::Placement;

use super::vocabulary::{Origin, UpdateId, UpdateStep};
use crate::document::{DesiredStatus, Item};
use crate::seams::Assignment;

/// A desired status that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The update that it made.
    pub id: UpdateId,
    /// When.
    pub applied: SystemTime,
    /// Who wanted it.
    pub origin: Origin,
    /// Where it came from.
    pub name: String,
    /// What is wanted.
    pub desired: Arc<DesiredStatus>,
    /// Where its instances were placed, or, when it was gone back to and they are not yet, where they were before.
    pub places: Placement,
}

/// How an item of the newest update is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// It is to be had.
    Wanted,
    /// It is there.
    Ready,
    /// It could not be had.
    Failed(AosError),
}

/// An item of the newest update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRecord {
    /// How it is.
    pub fetch: Fetch,
    /// The version that is there, for as long as the wanted one is not.
    pub fallback: Option<Item>,
}

/// How far the newest update is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Which one.
    pub update: UpdateId,
    /// What is being done.
    pub step: UpdateStep,
    /// It has come to its end.
    pub done: bool,
    /// Its items.
    pub items: BTreeMap<ItemId, ItemRecord>,
    /// Why nodes could not be configured.
    pub configuration: Option<AosError>,
    /// Why instances could not be placed.
    pub placement: Option<AosError>,
}

/// Which node has what, and by which update.
#[derive(Debug, Clone, PartialEq)]
pub struct Assigned {
    /// The update that placed it.
    pub by: UpdateId,
    /// What was placed.
    pub assignment: Assignment,
}

/// Everything that outlives the process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    /// What was wanted, up to what is wanted.
    pub versions: BTreeMap<UpdateId, Arc<Version>>,
    /// How far the newest is; none before the first. Its version is one of `versions`.
    pub state: Option<State>,
    /// What nodes have.
    pub assigned: Option<Arc<Assigned>>,
}

impl Saved {
    /// Takes a change, as the database does.
    pub fn apply(&mut self, change: super::Change) {
        use super::Change;
        match change {
            Change::Version(version) => {
                self.versions.insert(version.id, version);
            }
            Change::Forget(id) => {
                self.versions.remove(&id);
            }
            Change::State(state) => self.state = Some(state),
            Change::Assigned(assigned) => self.assigned = Some(assigned),
        }
    }
}
