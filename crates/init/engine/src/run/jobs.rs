//! Running jobs: when one may begin, and what beginning means.

use super::{Pending, Step};
use crate::dep::{DepKind, Effect};
use crate::event::{Do, LoadState};
use crate::ids::{JobId, UnitId};
use crate::job::{Job, JobPhase, JobResult, JobType};
use crate::protocol::{ActiveState, Input, Severity};
use crate::state::{CheckOutcome, EngineState};
use crate::transaction::order::{Ordered, waits_for};

impl EngineState {
    /// The jobs that must end before this one may begin, with the dependency that says so.
    #[must_use]
    pub fn waits_of(&self, job: JobId) -> Vec<(DepKind, JobId)> {
        let job = self.jobs.get(&job);
        job.map_or_else(Vec::new, |job| self.waits(job).collect())
    }

    fn waits(&self, job: &Job) -> impl Iterator<Item = (DepKind, JobId)> {
        let this = Ordered {
            job_type: job.job_type,
            ignore_order: job.ignore_order,
        };
        let record = self.unit(job.unit);
        let edges = [DepKind::After, DepKind::Before]
            .into_iter()
            .flat_map(move |kind| record.deps(kind).map(move |unit| (kind, unit)));
        edges.filter_map(move |(kind, unit)| {
            let other = self.job_of(unit)?;
            let that = Ordered {
                job_type: other.job_type,
                ignore_order: other.ignore_order,
            };
            waits_for(this, kind, that).then_some((kind, other.id))
        })
    }
}

impl Step<'_> {
    /// The jobs of units that this one is ordered against may be able to run now.
    pub(super) fn ready_neighbours(&mut self, unit: UnitId) {
        let record = self.state.unit(unit);
        let neighbours = record
            .deps(DepKind::Before)
            .chain(record.deps(DepKind::After));
        let jobs: Vec<JobId> = neighbours
            .filter_map(|other| self.state.unit(other).job)
            .collect();
        self.ready.extend(jobs);
        self.ready.extend(self.state.unit(unit).job);
    }

    /// Begins a job if nothing must come first.
    pub(super) fn try_run(&mut self, id: JobId) {
        let Some(job) = self.state.job(id) else {
            return;
        };
        if job.phase != JobPhase::Waiting || self.state.waits(job).next().is_some() {
            return;
        }
        let (unit, job_type) = (job.unit, job.job_type);
        let active = self.state.unit(unit).active();
        match job_type {
            JobType::Start => self.begin_start(id, unit, active),
            JobType::VerifyActive => match active {
                state if state.is_up() => self.done(id),
                ActiveState::Activating => {}
                _ => self
                    .pending
                    .push_back(Pending::Finish(id, JobResult::Invalid)),
            },
            JobType::Reload => match active {
                ActiveState::Active if self.state.unit(unit).machine.accepts_reload() => {
                    self.run_with(id, unit, Input::Reload);
                }
                ActiveState::Active | ActiveState::Reloading | ActiveState::Activating => {}
                _ => self
                    .pending
                    .push_back(Pending::Finish(id, JobResult::Invalid)),
            },
            JobType::Stop | JobType::Restart => match active {
                state if state.is_down() => self.done(id),
                ActiveState::Deactivating => self.set_running(id),
                _ => self.run_with(id, unit, Input::Stop),
            },
        }
    }

    fn done(&mut self, id: JobId) {
        self.pending.push_back(Pending::Finish(id, JobResult::Done));
    }

    fn set_running(&mut self, id: JobId) {
        let since = self.state.now.monotonic;
        self.state.set_job_phase(id, JobPhase::Running { since });
    }

    fn run_with(&mut self, id: JobId, unit: UnitId, input: Input) {
        self.set_running(id);
        self.pending.push_back(Pending::Deliver(unit, input));
    }

    fn begin_start(&mut self, id: JobId, unit: UnitId, active: ActiveState) {
        match active {
            state if state.is_up() => return self.done(id),
            ActiveState::Activating if !self.state.unit(unit).machine.accepts_start() => {
                return self.set_running(id);
            }
            // It begins when the unit is down.
            ActiveState::Deactivating | ActiveState::Maintenance => return,
            _ => {}
        }
        let record = self.state.unit(unit);
        if record.load != LoadState::Loaded {
            let message = format!("Cannot start: the unit is {}.", record.load.as_str());
            self.log(Severity::Error, unit, message);
            return self
                .pending
                .push_back(Pending::Finish(id, JobResult::Failed));
        }
        if let Some(missing) = self.missing_binding(unit) {
            let message = format!("Cannot start: it is bound to {missing}, which is not active.");
            self.log(Severity::Error, unit, message);
            return self
                .pending
                .push_back(Pending::Finish(id, JobResult::Dependency));
        }
        let record = self.state.unit(unit);
        let limit = record.settings().start_limit;
        if record.starts.would_exceed(limit, self.state.now.monotonic) {
            return self.hit_start_limit(id, unit);
        }
        if record
            .spec
            .as_ref()
            .is_some_and(|spec| !spec.checks.is_empty())
        {
            self.state.set_job_phase(id, JobPhase::Checking);
            return self.act(Do::Check { unit });
        }
        self.start(id, unit);
    }

    /// A unit that may only be up together with another, and comes after it, cannot start while that is down.
    fn missing_binding(&self, unit: UnitId) -> Option<Box<str>> {
        let record = self.state.unit(unit);
        record
            .with_effect(Effect::NeedsOtherActive)
            .map(|(_, other)| other)
            .filter(|other| record.deps(DepKind::After).any(|after| after == *other))
            .find(|other| !self.state.unit(*other).active().is_up())
            .map(|other| self.state.name(other))
    }

    fn hit_start_limit(&mut self, id: JobId, unit: UnitId) {
        let settings = self.state.unit(unit).settings();
        let action = settings.start_limit_action;
        let message = format!(
            "Start limit hit: {} starts within {} s. Clear it with reset-failed, or start it by hand.",
            settings.start_limit.burst,
            settings.start_limit.interval.0 / 1_000_000
        );
        self.log(Severity::Error, unit, message);
        self.emergency(unit, action, "its start limit was hit");
        self.pending
            .push_back(Pending::Deliver(unit, Input::StartLimitHit));
        self.pending
            .push_back(Pending::Finish(id, JobResult::Failed));
    }

    fn start(&mut self, id: JobId, unit: UnitId) {
        let now = self.state.now.monotonic;
        let invocation = self.draw_invocation();
        let record = self.state.unit_mut(unit);
        let limit = record.settings().start_limit;
        record.starts.count(limit, now);
        record.invocation = invocation;
        self.run_with(id, unit, Input::Start { invocation });
    }

    /// The executor has looked at the checks of a unit.
    pub(super) fn checked(&mut self, unit: UnitId, verdicts: &[bool]) {
        let Some(record) = self.state.get(unit) else {
            return;
        };
        let Some(job) = self.state.job_of(unit) else {
            return;
        };
        let id = job.id;
        if job.phase != JobPhase::Checking {
            return;
        }
        if self.state.waits(job).next().is_some() {
            // While the checks were looked at, a job was queued that comes first. They are looked at again after it.
            return self.state.set_job_phase(id, JobPhase::Waiting);
        }
        let Some(spec) = record.spec.as_ref() else {
            return;
        };
        let outcome = CheckOutcome {
            at: self.state.now.monotonic,
            failed_condition: first_failed(&spec.checks, verdicts, false),
            failed_assert: first_failed(&spec.checks, verdicts, true),
        };
        let text = |index: u16| spec.checks[usize::from(index)].text.clone();
        let condition = outcome.failed_condition.map(text);
        let assert = outcome.failed_assert.map(text);
        self.state.unit_mut(unit).checked = Some(outcome);
        if let Some(text) = condition {
            self.log(
                Severity::Info,
                unit,
                format!("Skipped: {text} does not hold."),
            );
            self.pending
                .push_back(Pending::Finish(id, JobResult::Skipped));
        } else if let Some(text) = assert {
            self.log(
                Severity::Error,
                unit,
                format!("Failed: {text} does not hold."),
            );
            self.pending
                .push_back(Pending::Finish(id, JobResult::Assert));
        } else {
            self.start(id, unit);
        }
    }
}

/// The first check that decides against the unit: all plain ones must hold, and one of the triggering ones, if there are
/// any. A verdict that is missing counts as not held.
fn first_failed(checks: &[crate::spec::Check], verdicts: &[bool], asserts: bool) -> Option<u16> {
    let of_kind = || {
        checks
            .iter()
            .enumerate()
            .filter(move |(_, check)| check.assert == asserts)
            .map(|(at, check)| (at, check, verdicts.get(at).copied().unwrap_or(false)))
    };
    let plain = of_kind().find(|(_, check, held)| !check.trigger && !held);
    let mut triggers = of_kind().filter(|(_, check, _)| check.trigger).peekable();
    let triggered = triggers.peek().is_none() || triggers.any(|(_, _, held)| held);
    let failed = plain.or_else(|| {
        (!triggered)
            .then(|| of_kind().find(|(_, check, _)| check.trigger))
            .flatten()
    });
    failed.and_then(|(at, _, _)| u16::try_from(at).ok())
}
