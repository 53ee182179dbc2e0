//! The deciding half of the launcher: no clock, no I/O.
//!
//! [`Decider::step`] takes what happened and what time it is, and answers what to write down and what to do, in that order.
//! [`Decider::deadline`] says when it wants to be asked again although nothing happened.

mod facts;
mod instance;
mod offline;
mod order;
mod recover;
mod saved;
mod status;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::{AosCode, AosError, Digest, InstanceIdent, InstanceStatus};
use muster_runtime::{RunEvent, RunId};

pub use self::facts::Facts;
pub use self::offline::Reach;
pub use self::saved::{Change, Crashes, Known, Rejected, Row, Saved, Setback};

use self::instance::{Have, Instance};
use self::offline::Offline;
use crate::limits::Limits;
use crate::target::{DesiredSet, EnvOverride, Target, overrides_for};

/// What time it is, by the clock that fits the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time in which programs could run: stands still while the machine sleeps. For health, waits and patience.
    pub awake: Duration,
    /// Since some moment of this boot; goes on while the machine sleeps, never back. For time on its own.
    pub steady: Duration,
    /// What the clock on the wall says; may jump.
    pub wall: SystemTime,
}

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// The controller wants exactly these.
    Update(DesiredSet),
    /// These overrides replace the earlier ones.
    Overrides(Vec<EnvOverride>),
    /// Others came or went.
    Reach(Reach),
    /// What starts have waited for may be there now.
    LookAgain,
    /// A fetch has ended.
    Fetched {
        /// What was fetched.
        target: Arc<Target>,
        /// What its item says, or why it could not be had.
        result: Result<Facts, AosError>,
    },
    /// A start has ended.
    Started {
        /// Which instance.
        instance: InstanceIdent,
        /// Which start.
        run: RunId,
        /// Why it failed.
        result: Result<(), StartFault>,
    },
    /// A stop has ended.
    Stopped {
        /// Which instance.
        instance: InstanceIdent,
        /// Why it failed.
        result: Result<(), AosError>,
    },
    /// A runtime told something.
    Run(RunEvent),
    /// A deadline passed.
    Tick,
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFault {
    /// It cannot be started as it is.
    Failed(AosError),
    /// Something around it is not there yet, which says nothing about the version.
    NotYet(AosError),
}

/// Something to do. Each is done at most once at a time for an instance, and answered by an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Get the image; answered by [`Event::Fetched`].
    Fetch(Arc<Target>),
    /// Stop getting it; not answered.
    StopFetching(InstanceIdent),
    /// Start it; answered by [`Event::Started`].
    Start {
        /// What.
        target: Arc<Target>,
        /// Under which number.
        run: RunId,
    },
    /// Stop it and remove what belongs to it; answered by [`Event::Stopped`].
    Stop {
        /// What was started.
        target: Arc<Target>,
        /// Between asking it to end and ending it.
        grace: Duration,
    },
    /// These images are needed.
    Keep(BTreeSet<Digest>),
    /// These statuses have changed.
    Report(Vec<InstanceStatus>),
    /// The update has settled; these are all statuses.
    Settled(Vec<InstanceStatus>),
}

/// What follows from an event: first write, then do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To be on disk before anything of [`effects`](Self::effects) is done.
    pub changes: Vec<Change>,
    /// To be done, in this order.
    pub effects: Vec<Effect>,
}

/// The owner of every decision.
#[derive(Debug)]
pub struct Decider {
    limits: Limits,
    instances: BTreeMap<InstanceIdent, Instance>,
    overrides: Vec<EnvOverride>,
    offline: Offline,
    /// An update was taken and has not settled yet.
    unsettled: bool,
    /// The number of the next start; never used twice on this node.
    next_run: RunId,
    /// What was last said to be needed; `None` if that is not known.
    kept: Option<BTreeSet<Digest>>,
}

impl Decider {
    /// One that knows of nothing, while no controller is there.
    pub fn new(limits: Limits, now: Now) -> Self {
        Self {
            limits,
            instances: BTreeMap::new(),
            overrides: Vec::new(),
            offline: Offline::new(Duration::ZERO, false, now),
            unsettled: false,
            next_run: RunId::default(),
            kept: Some(BTreeSet::new()),
        }
    }

    /// All statuses, as they are now.
    pub fn statuses(&self) -> Vec<InstanceStatus> {
        self.instances.values().map(status::of).collect()
    }

    /// How long from now until [`Event::Tick`] is due, if the machine does not sleep meanwhile.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let offline = self.offline.deadline(self.offline_ttls(), now);
        let offline = offline.map(|due| due.saturating_sub(now.steady));
        let expiry = self.overrides.iter().filter_map(|it| it.expires).min();
        let expiry = expiry.map(|at| at.duration_since(now.wall).unwrap_or_default());
        let instances = self.instances.values();
        instances
            .filter_map(|instance| instance.deadline(&self.limits, now))
            .map(|due| due.saturating_sub(now.awake))
            .chain(offline)
            .chain(expiry)
            .min()
    }

    /// What follows.
    pub fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        let mut new_overrides = false;
        match event {
            Event::Update(wanted) => {
                self.take_update(wanted);
                self.look_again(now);
            }
            Event::Overrides(overrides) => {
                self.overrides = overrides;
                new_overrides = true;
            }
            Event::Reach(reach) => self.reaches(reach, now, &mut step),
            Event::LookAgain => self.look_again(now),
            Event::Fetched { target, result } => {
                if let Some(instance) = self.instances.get_mut(target.ident()) {
                    instance.fetched(&target, result, &self.limits, now);
                }
            }
            Event::Started {
                instance,
                run,
                result,
            } => {
                if let Some(instance) = self.instances.get_mut(&instance) {
                    instance.started(run, result, &self.limits, now);
                }
            }
            Event::Stopped { instance, result } => {
                if let Some(instance) = self.instances.get_mut(&instance) {
                    instance.stopped(result, &self.limits, now);
                }
            }
            Event::Run(event) => {
                if let Some(instance) = self.instances.get_mut(&event.instance) {
                    instance.told(event.run, event.state, &self.limits, now);
                }
            }
            Event::Tick => {}
        }
        let known = self.overrides.len();
        self.overrides
            .retain(|it| it.expires.is_none_or(|expires| now.wall < expires));
        if new_overrides || self.overrides.len() < known {
            // What is over must not come back when the clock is set back and another launcher reads what was written down.
            step.changes.push(Change::Overrides(self.overrides.clone()));
        }
        let counts = self.offline_ttls().next().is_some();
        step.changes.extend(self.offline.count(counts, now));
        self.reconcile(now, &mut step);
        step
    }

    fn take_update(&mut self, wanted: DesiredSet) {
        let mut named = BTreeSet::new();
        self.instances.retain(|_, instance| {
            instance.refused = None;
            instance.saved.is_some() || !instance.is_gone()
        });
        for info in wanted.instances {
            let ident = info.instance.clone();
            if !named.insert(ident.clone()) {
                // The set names it twice. The first counts: a controller that contradicts itself must not make an instance
                // restart in a circle.
                continue;
            }
            let instance = self.instances.entry(ident).or_default();
            instance.set_goal(Some(info));
        }
        for refused in wanted.refused {
            if named.insert(refused.instance.clone()) {
                let instance = self.instances.entry(refused.instance.clone());
                instance.or_default().refused = Some(refused);
            }
        }
        for (ident, instance) in &mut self.instances {
            if !named.contains(ident) && !wanted.names_more {
                instance.set_goal(None);
            }
        }
        self.unsettled = true;
    }

    fn reaches(&mut self, reach: Reach, now: Now, step: &mut Step) {
        if self.offline.rises_to(reach) {
            // It says where images are. Whoever else was away may be back with it.
            for instance in self.instances.values_mut() {
                instance.fetch_again(now);
            }
            self.look_again(now);
        }
        step.changes.extend(self.offline.reaches(reach, now));
    }

    fn look_again(&mut self, now: Now) {
        for instance in self.instances.values_mut() {
            instance.look_again(now);
        }
    }

    fn offline_ttls(&self) -> impl Iterator<Item = Duration> {
        self.instances.values().filter_map(Instance::offline_ttl)
    }

    /// Moves every instance one step towards what it wants.
    fn reconcile(&mut self, now: Now, step: &mut Step) {
        let offline = self.offline.lasts(now);
        for (ident, instance) in &mut self.instances {
            let env_override = overrides_for(&self.overrides, ident, now.wall);
            instance.aim(env_override, offline, &self.limits, now);
        }
        self.stop_fetches(step);
        self.begin_fetches(now, step);
        self.begin_stops(now, step);
        self.begin_starts(now, step);
        self.finish(step);
    }

    fn stop_fetches(&mut self, step: &mut Step) {
        for (ident, instance) in &mut self.instances {
            if instance.drop_unwanted_fetch() {
                step.effects.push(Effect::StopFetching(ident.clone()));
            }
        }
    }

    fn begin_fetches(&mut self, now: Now, step: &mut Step) {
        if !self.instances.values().any(|it| it.needs_fetch(now)) {
            return;
        }
        let urgency = order::urgency(&self.instances);
        let under_way = self
            .instances
            .values()
            .filter(|it| it.is_fetching())
            .count();
        let mut free = self.limits.fetches.max(1).saturating_sub(under_way);
        let mut waiting: Vec<(&InstanceIdent, &mut Instance)> = self
            .instances
            .iter_mut()
            .filter(|(_, instance)| instance.needs_fetch(now))
            .collect();
        waiting.sort_by_key(|(ident, _)| std::cmp::Reverse(urgency.get(*ident)));
        for (_, instance) in waiting {
            if free == 0 {
                instance.wait_for_fetch(now);
                continue;
            }
            if let Some(target) = instance.begin_fetch(now) {
                free -= 1;
                step.effects.push(Effect::Fetch(target));
            }
        }
    }

    fn begin_stops(&mut self, now: Now, step: &mut Step) {
        let instances = self.instances.iter();
        let mut due: Vec<InstanceIdent> = instances
            .filter(|(_, instance)| instance.stop_is_due(now))
            .map(|(ident, _)| ident.clone())
            .collect();
        if due.is_empty() {
            return;
        }
        let under_way = self
            .instances
            .values()
            .filter(|instance| instance.takes_a_stop(&self.limits, now))
            .count();
        let free = self.limits.stops.max(1).saturating_sub(under_way);
        if due.len() > free {
            let urgency = order::stop_urgency(&self.instances);
            due.sort_by_key(|ident| std::cmp::Reverse(urgency.get(ident)));
        }
        for ident in due.iter().take(free) {
            if let Some(instance) = self.instances.get_mut(ident)
                && let Some((target, grace)) = instance.begin_stop(now)
            {
                let grace = grace.unwrap_or(self.limits.stop_grace);
                step.effects.push(Effect::Stop { target, grace });
            }
        }
    }

    fn begin_starts(&mut self, now: Now, step: &mut Step) {
        let under_way = self
            .instances
            .values()
            .filter(|instance| matches!(instance.have, Have::Starting { .. }))
            .count();
        let free = self.limits.starts.max(1).saturating_sub(under_way);
        let ready = order::ready(&self.instances, &self.limits, now);
        let first = self.next_run;
        for ident in ready.iter().take(free) {
            let run = self.next_run;
            if let Some(instance) = self.instances.get_mut(ident)
                && let Some(target) = instance.begin_start(run)
            {
                self.next_run = RunId(run.0 + 1);
                step.effects.push(Effect::Start { target, run });
            }
        }
        if self.next_run != first {
            step.changes.push(Change::NextRun(self.next_run));
        }
    }

    /// Writes down and reports what is different now.
    fn finish(&mut self, step: &mut Step) {
        let mut changed = Vec::new();
        self.instances.retain(|ident, instance| {
            let status = status::of(instance);
            if instance.reported.as_ref() != Some(&status) {
                instance.reported = Some(status.clone());
                changed.push(status);
            }
            if instance.is_gone() {
                if instance.saved.take().is_some() {
                    step.changes.push(Change::Remove(ident.clone()));
                }
                return instance.refused.is_some();
            }
            let row = instance.row();
            if instance.saved.as_ref() != Some(&row) {
                instance.saved = Some(row.clone());
                step.changes.push(Change::Put(ident.clone(), Box::new(row)));
            }
            true
        });
        let needed: BTreeSet<Digest> = self
            .instances
            .values()
            .flat_map(Instance::manifests)
            .collect();
        if self.kept.as_ref() != Some(&needed) {
            self.kept = Some(needed.clone());
            // Before anything is fetched: what is about to come is needed too.
            step.effects.insert(0, Effect::Keep(needed));
        }
        if !changed.is_empty() {
            step.effects.push(Effect::Report(changed));
        }
        if self.unsettled && self.instances.values().all(Instance::is_settled) {
            self.unsettled = false;
            step.effects.push(Effect::Settled(self.statuses()));
        }
    }
}

fn failed(message: impl Into<String>) -> AosError {
    AosError::new(AosCode::Failed, message)
}
