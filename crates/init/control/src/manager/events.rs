//! What happens, in order: a subscription with sequence numbers and resync.
//!
//! A subscriber says the last sequence number that it has seen; if the manager still knows what came after it, it goes on
//! from there, else the first reply says `resync` and the subscriber reads lists anew. The same happens to a subscriber that
//! reads too slowly. Sequence numbers are rising over the life of the machine, also across restarts of the manager.

use serde::{Deserialize, Serialize};

/// Subscribe; must be called with `more`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscribeCall {
    /// The last sequence number seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Only events of these units (names or globs); all where empty.
    pub units: Vec<String>,
}

/// Some events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscribeReply {
    /// Something was missed before these events: read lists anew.
    pub resync: bool,
    /// The sequence number up to which the subscriber is informed now.
    pub sequence: u64,
    /// What happened.
    pub events: Vec<Event>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number.
    pub sequence: u64,
    /// Microseconds since 1970.
    pub real: u64,
    /// What.
    pub change: Change,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A unit's state changed.
    Unit {
        /// The unit.
        unit: String,
        /// Its state now.
        active: String,
        /// In its type's words.
        sub: String,
    },
    /// A job was queued.
    JobNew {
        /// Its number.
        job: u32,
        /// Its unit.
        unit: String,
        /// What it does.
        kind: String,
    },
    /// A job ended.
    JobGone(JobGone),
    /// Unit files were read again.
    Reloaded {},
    /// The machine's overall state changed.
    Machine {
        /// starting, running, degraded, stopping ...
        state: String,
    },
}

/// A job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobGone {
    /// Its number.
    pub job: u32,
    /// Its unit.
    pub unit: String,
    /// What it did.
    pub kind: String,
    /// How it ended.
    pub result: String,
}
