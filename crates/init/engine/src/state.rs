//! The engine's whole state, as one value.
//!
//! It can be encoded at any moment and decoded by this or a later version; what is decoded behaves as if nothing had
//! happened in between. Nothing outside [`EngineState::apply`](crate::EngineState::apply) changes it.

mod codec;
mod due;
mod edges;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::dep::{DepKind, Effect};
use crate::event::LoadState;
use crate::ids::{Clock, InvocationId, JobId, Time, UnitId};
use crate::job::Job;
use crate::protocol::{ActiveState, DeadlineKind};
use crate::rest::{AtRest, Rest};
use crate::spec::{UnitSettings, UnitSpec};
use crate::types::Machine;

pub use codec::{DecodeStateError, STATE_VERSION};
pub(crate) use due::Due;
pub use edges::Edge;

/// Everything the engine knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineState {
    pub(crate) units: Vec<Option<UnitRecord>>,
    /// Slots whose unit was forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) vacant: Vec<UnitId>,
    /// Every name and alias.
    pub(crate) names: BTreeMap<Box<str>, UnitId>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) last_job: u32,
    pub(crate) last_action: u64,
    #[serde(default)]
    pub(crate) shutting_down: bool,
    /// Derived: when what is due.
    #[serde(skip)]
    pub(crate) due: BTreeSet<(Time, Due)>,
    /// When the last event happened; deadlines are compared with it.
    #[serde(default)]
    pub(crate) now: Clock,
}

/// One unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// Its own name; aliases are only in the name table.
    pub name: Box<str>,
    /// How loading went.
    pub load: LoadState,
    /// Its settings, without the edges, which are resolved into `edges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<UnitSpec>>,
    /// Edges to other units, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) edges: Vec<Edge>,
    /// The state machine of its type.
    pub machine: Machine,
    /// The job queued for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The current or last run.
    #[serde(default)]
    pub invocation: InvocationId,
    /// Deadlines that its type has set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) deadlines: BTreeMap<DeadlineKind, Time>,
    /// Starts counted for the start limit.
    #[serde(default)]
    pub(crate) starts: RateWindow,
    /// Jobs that dependencies alone asked for, counted so that they cannot go on for ever.
    #[serde(default)]
    pub(crate) by_rule: RateWindow,
    /// How the checks of the last start went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<CheckOutcome>,
    /// When it last changed.
    #[serde(default)]
    pub times: AtRest<Times>,
}

/// How the conditions and asserts of a start went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckOutcome {
    /// When.
    pub at: Time,
    /// The index of the condition that did not hold.
    pub failed_condition: Option<u16>,
    /// The index of the assert that did not hold.
    pub failed_assert: Option<u16>,
}

/// When a unit last entered or left a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Any change.
    pub change: Clock,
    /// Left the down states.
    pub inactive_exit: Clock,
    /// Came up.
    pub active_enter: Clock,
    /// Left the up states.
    pub active_exit: Clock,
    /// Went down.
    pub inactive_enter: Clock,
}

/// A counter for "so many in that long".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateWindow {
    /// When the window began.
    pub begin: Time,
    /// How many so far.
    pub count: u32,
}

impl RateWindow {
    /// Whether one more now would be too many.
    #[must_use]
    pub fn would_exceed(&self, limit: crate::spec::RateLimit, now: Time) -> bool {
        limit.is_on() && !self.is_over(limit, now) && self.count >= limit.burst
    }

    /// Counts one.
    pub fn count(&mut self, limit: crate::spec::RateLimit, now: Time) {
        if self.is_over(limit, now) {
            *self = Self {
                begin: now,
                count: 0,
            };
        }
        self.count = self.count.saturating_add(1);
    }

    fn is_over(&self, limit: crate::spec::RateLimit, now: Time) -> bool {
        self.count == 0 || now.since(self.begin) > limit.interval.0
    }
}

impl UnitRecord {
    pub(crate) fn stub(name: &str) -> Self {
        Self {
            name: name.into(),
            load: LoadState::Stub,
            spec: None,
            edges: Vec::new(),
            machine: Machine::for_name(name),
            job: None,
            invocation: InvocationId::default(),
            deadlines: BTreeMap::new(),
            starts: RateWindow::default(),
            by_rule: RateWindow::default(),
            checked: None,
            times: AtRest::default(),
        }
    }

    /// Its state as others see it.
    #[must_use]
    pub fn active(&self) -> ActiveState {
        self.machine.active()
    }

    /// What a unit that triggers this one may know of it.
    pub(crate) fn as_triggered(&self) -> crate::protocol::Triggered {
        crate::protocol::Triggered {
            active: self.active(),
            inactive_exit: self.times.inactive_exit.monotonic,
            inactive_enter: self.times.inactive_enter.monotonic,
        }
    }

    /// Its [Unit] settings, or the defaults while it is not loaded.
    #[must_use]
    pub fn settings(&self) -> &UnitSettings {
        match &self.spec {
            Some(spec) => &spec.unit,
            None => UnitSettings::at_rest(),
        }
    }

    /// The units that it has an edge of this kind to, in the order of their slots.
    pub fn deps(&self, kind: DepKind) -> impl Iterator<Item = UnitId> + '_ {
        let from = self.edges.partition_point(|edge| edge.kind < kind);
        self.edges[from..]
            .iter()
            .take_while(move |edge| edge.kind == kind)
            .map(|edge| edge.to)
    }

    /// The edges that have this effect.
    pub(crate) fn with_effect(
        &self,
        effect: Effect,
    ) -> impl Iterator<Item = (DepKind, UnitId)> + '_ {
        self.edges
            .iter()
            .filter(move |edge| edge.kind.has(effect))
            .map(|edge| (edge.kind, edge.to))
    }

    /// Its edges.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
}

impl EngineState {
    /// A state without units.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether somebody has asked for the end of the machine.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// The unit that has this name or alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<UnitId> {
        self.names.get(name).copied()
    }

    /// A unit.
    ///
    /// # Panics
    /// If the slot is empty: ids are only valid while their unit is known.
    #[must_use]
    pub fn unit(&self, id: UnitId) -> &UnitRecord {
        self.units[id.index()]
            .as_ref()
            .expect("a unit id names a known unit")
    }

    pub(crate) fn unit_mut(&mut self, id: UnitId) -> &mut UnitRecord {
        self.units[id.index()]
            .as_mut()
            .expect("a unit id names a known unit")
    }

    /// A unit, if the slot is taken.
    #[must_use]
    pub fn get(&self, id: UnitId) -> Option<&UnitRecord> {
        self.units.get(id.index())?.as_ref()
    }

    /// Every unit.
    pub fn units(&self) -> impl Iterator<Item = (UnitId, &UnitRecord)> {
        self.units.iter().enumerate().filter_map(|(slot, unit)| {
            let id = UnitId(u32::try_from(slot).expect("fewer than 2^32 units"));
            unit.as_ref().map(|unit| (id, unit))
        })
    }

    /// Every queued job, oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// A queued job.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The job queued for a unit.
    #[must_use]
    pub fn job_of(&self, id: UnitId) -> Option<&Job> {
        self.unit(id).job.and_then(|job| self.jobs.get(&job))
    }

    /// The moment of the last event.
    #[must_use]
    pub fn now(&self) -> Clock {
        self.now
    }
}
