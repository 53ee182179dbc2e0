//! What happened to machines, for whoever watches.

use muster_lifecycle::{Moment, Reason, State, Verb};
use muster_provider::{FailureClass, MachineId, ResourceId};
use serde::{Deserialize, Serialize};

/// Something that happened to a machine. It was durable before it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineEvent {
    /// Counts up by one, across restarts.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// To which machine.
    pub machine: MachineId,
    /// What.
    pub what: Happened,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Happened {
    /// It was ordered.
    Ordered,
    /// It is not wanted any more, before it was known to exist.
    Cancelled {
        /// Why.
        reason: Reason,
    },
    /// Its provider has made it.
    Made {
        /// The provider's name of it.
        resource: ResourceId,
    },
    /// It was found at its provider when nobody wanted it any more.
    Found {
        /// The provider's name of it.
        resource: ResourceId,
    },
    /// Its provider shows it again: it was not gone.
    Back {
        /// The provider's name of it.
        resource: ResourceId,
    },
    /// Something was asked of it.
    Asked {
        /// What.
        verb: Verb,
        /// Why.
        reason: Reason,
    },
    /// It changed its state.
    Moved {
        /// From.
        from: State,
        /// To.
        to: State,
    },
    /// What was asked of it is done.
    Done {
        /// What.
        verb: Verb,
    },
    /// What was asked of it will not be done.
    NotDone {
        /// What.
        verb: Verb,
    },
    /// It has been idle for as long as its timer allows, and can be put away in none of the ways that the timer knows.
    Stays,
    /// Its provider failed.
    Failed {
        /// At what.
        operation: String,
        /// What that means.
        class: FailureClass,
        /// What it said.
        text: String,
        /// When it is tried again, if it is.
        again: Option<Moment>,
    },
    /// It is gone.
    Gone {
        /// Why.
        reason: Reason,
    },
    /// Somebody took it from its pool.
    Claimed {
        /// Who.
        by: String,
    },
    /// It was given back to its pool.
    Released,
    /// It is a node of a Unit from now on.
    Joined {
        /// The Unit's description.
        unit: String,
    },
    /// It is no node any more.
    Left {
        /// The Unit's description.
        unit: String,
    },
    /// It is gone, and its Unit still knows it as a node.
    NodeStays {
        /// The Unit's description.
        unit: String,
    },
    /// Its provider had one that nobody needs, which was destroyed.
    StrayDestroyed {
        /// The provider's name of it.
        resource: ResourceId,
        /// What it was.
        reason: Reason,
    },
}
