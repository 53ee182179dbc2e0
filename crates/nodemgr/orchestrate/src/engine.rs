//! Decides what a run does next, from its workflow and its journal alone: no clock, no disk, no machine.
//!
//! ```text
//!             every machine                 every step, on every machine
//!  provision ──────────────▶ ready ──────────────▶ work ─┐
//!      │                       │                     │   │ nothing is under way, and nothing more may begin
//!      └───────────────────────┴─────────────────────┴───┴──▶ clean (each machine that was asked for, once) ──▶ over
//! ```
//! After a failure nothing begins but steps that are done always; what is under way is waited for. A cancellation or the end
//! of the run's time aborts what is under way. Cleaning is never aborted, and never skipped.

mod outlook;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::Moment;
use muster_provider::MachineId;

use self::outlook::Outlook;
use crate::entry::{Entry, JobResult, RunOutcome, Why};
use crate::job::{Job, Slot};
use crate::workflow::{Action, Effort, Transfer, Workflow};

/// The longest wait between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(5 * 60);

/// Cleaning asks the registry, which itself goes on for as long as it takes.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(15 * 60);
const CLEAN_ATTEMPTS: u32 = 5;
const CLEAN_DELAY: Duration = Duration::from_secs(5);

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// It has not begun, or is to be tried again.
    Waiting {
        /// Not before then.
        until: Moment,
    },
    /// It is under way.
    Running {
        /// Since when.
        since: Moment,
    },
    /// It is done.
    Done,
    /// It failed, and is not tried again.
    Failed(Why),
    /// It was ended because the run was.
    Aborted,
}

/// A job and its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// Which attempt it is at, from 1.
    pub attempt: u32,
    /// Whether it was ever begun.
    pub begun: bool,
    /// How far it is.
    pub phase: JobPhase,
    /// Nobody saw the end of a command that it began, and it has not come to an end since: the command may go on in the machine.
    pub may_go_on: bool,
    /// What somebody should know though it is done.
    pub warnings: Vec<String>,
}

/// What is to be written down, and done after that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// To be written and [applied](Engine::apply); whoever did that asks again.
    pub(crate) entries: Vec<Entry>,
    /// What is under way and shall end.
    pub(crate) abort: Vec<Job>,
    /// When to ask again, if nothing happens before.
    pub(crate) wake: Option<Moment>,
}

/// A run: its workflow, and what its journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Engine {
    workflow: Arc<Workflow>,
    accepted: Moment,
    jobs: BTreeMap<Job, JobState>,
    running: usize,
    machines: BTreeMap<Slot, MachineId>,
    /// Why it will not succeed: the first reason counts.
    verdict: Option<RunOutcome>,
    /// Cancelled or expired: nothing begins any more but cleaning.
    stopped: bool,
    over: bool,
}

impl Engine {
    pub(crate) fn new(workflow: Arc<Workflow>, accepted: Moment) -> Self {
        let waiting = || JobState {
            attempt: 1,
            begun: false,
            phase: JobPhase::Waiting { until: accepted },
            may_go_on: false,
            warnings: Vec::new(),
        };
        let mut jobs = BTreeMap::new();
        for slot in workflow.slots() {
            jobs.insert(Job::Provision(slot.clone()), waiting());
            jobs.insert(Job::Ready(slot.clone()), waiting());
            jobs.insert(Job::Clean(slot), waiting());
        }
        for step in workflow.steps() {
            for slot in workflow.slots_of_step(step) {
                let step = step.name().into();
                jobs.insert(Job::Work { step, slot }, waiting());
            }
        }
        Self {
            workflow,
            accepted,
            jobs,
            running: 0,
            machines: BTreeMap::new(),
            verdict: None,
            stopped: false,
            over: false,
        }
    }

    pub(crate) fn workflow(&self) -> &Arc<Workflow> {
        &self.workflow
    }

    pub(crate) fn jobs(&self) -> &BTreeMap<Job, JobState> {
        &self.jobs
    }

    /// The machine of a slot, once it is known.
    pub(crate) fn machine(&self, slot: &Slot) -> Option<&MachineId> {
        self.machines.get(slot)
    }

    pub(crate) fn machines(&self) -> &BTreeMap<Slot, MachineId> {
        &self.machines
    }

    /// Whether nothing has gone wrong so far.
    pub(crate) fn is_well(&self) -> bool {
        self.verdict.is_none()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How long an attempt at a job may take, and how often it is tried.
    pub(crate) fn effort(&self, job: &Job) -> Effort {
        let group = |slot: &Slot| self.workflow.group(slot.group());
        let found = match job {
            Job::Provision(slot) => group(slot).map(|it| it.provision),
            Job::Ready(slot) => group(slot).map(|it| it.ready),
            Job::Work { step, .. } => self.workflow.step(step).map(|it| it.effort),
            Job::Clean(_) => None,
        };
        found.unwrap_or_else(|| Effort {
            timeout: muster_config::Duration::new(CLEAN_TIMEOUT).unwrap_or_default(),
            attempts: CLEAN_ATTEMPTS,
            delay: muster_config::Duration::new(CLEAN_DELAY).unwrap_or_default(),
        })
    }

    /// Whether a job may be done again when nobody knows how far it came. The registry and readiness checks see to that
    /// themselves.
    fn is_repeatable(&self, job: &Job) -> bool {
        let step = job.step().and_then(|name| self.workflow.step(name));
        step.is_none_or(|step| step.repeatable)
    }

    /// The steps of which a command may go on in the machine, and which this job must not do anything beside. Those that are under
    /// way see to it themselves.
    pub(crate) fn left_over(&self, job: &Job) -> Vec<Box<str>> {
        if matches!(job, Job::Provision(_) | Job::Ready(_)) {
            return Vec::new();
        }
        let here = self.jobs.iter().filter(|(other, state)| {
            let is_meant = *other == job || !state.is_running();
            other.slot() == job.slot() && state.may_go_on && is_meant
        });
        here.filter_map(|(other, _)| other.step().map(Into::into))
            .collect()
    }

    /// Whether a job is a step that runs commands: copies end with whoever makes them.
    fn has_commands(&self, job: &Job) -> bool {
        let step = job.step().and_then(|name| self.workflow.step(name));
        step.is_some_and(|step| step.actions().iter().any(|it| it.place().is_some()))
    }

    /// An attempt that is under way is over: whether what it began may go on.
    fn judge_end(&mut self, job: &Job, attempt: u32, is_seen: bool) {
        let may_go_on = !is_seen && self.has_commands(job);
        if self.is_running(job, attempt)
            && let Some(state) = self.jobs.get_mut(job)
        {
            state.may_go_on = may_go_on;
        }
    }

    /// The folders whose changes were to be brought back from a machine, and were not.
    pub(crate) fn not_brought_back(&self, slot: &Slot) -> Vec<Transfer> {
        let failed = self.jobs.iter().filter(|(job, state)| {
            job.slot() == slot && matches!(state.phase, JobPhase::Failed(_))
        });
        let steps = failed.filter_map(|(job, _)| self.workflow.step(job.step()?));
        let actions = steps.flat_map(|step| step.actions());
        let folders = actions.filter_map(|action| match action {
            Action::Download(transfer) if transfer.only_changes => Some(transfer.clone()),
            _ => None,
        });
        folders.collect()
    }

    /// What is under way when a manager takes a run over from one that died: nobody is at work on it.
    pub(crate) fn interrupted(&self) -> Vec<Entry> {
        let running = self.jobs.iter().filter(|(_, state)| state.is_running());
        let entries = running.map(|(job, state)| Entry::Interrupted {
            job: job.clone(),
            attempt: state.attempt,
        });
        entries.collect()
    }

    /// Takes an entry of the journal in. One that does not fit, as the end of a job that was not begun, changes nothing.
    pub(crate) fn apply(&mut self, at: Moment, entry: &Entry) {
        match entry {
            Entry::Accepted => {}
            Entry::Begun { job, attempt } => {
                if let Some(state) = self.jobs.get_mut(job)
                    && matches!(state.phase, JobPhase::Waiting { .. })
                {
                    state.begun = true;
                    state.attempt = *attempt;
                    state.phase = JobPhase::Running { since: at };
                    self.running += 1;
                }
            }
            Entry::Ended {
                job,
                attempt,
                result,
            } => self.end(at, job, *attempt, result),
            Entry::Interrupted { job, attempt } => {
                self.judge_end(job, *attempt, false);
                match self.is_repeatable(job) {
                    true => self.set(job, *attempt, JobPhase::Waiting { until: at }),
                    false => self.fail(at, job, *attempt, &Why::Interrupted),
                }
            }
            Entry::CancelAsked => {
                self.stopped = true;
                self.verdict.get_or_insert(RunOutcome::Cancelled);
            }
            Entry::Expired => {
                self.stopped = true;
                self.verdict.get_or_insert(RunOutcome::Expired);
            }
            Entry::Over { .. } => self.over = true,
        }
    }

    fn end(&mut self, at: Moment, job: &Job, attempt: u32, result: &JobResult) {
        self.judge_end(job, attempt, result.is_seen());
        match result {
            JobResult::Done { machine, warnings } => {
                if !self.is_running(job, attempt) {
                    return;
                }
                if let Some(machine) = machine {
                    self.machines.insert(job.slot().clone(), machine.clone());
                }
                if let Some(state) = self.jobs.get_mut(job) {
                    state.warnings.clone_from(warnings);
                }
                self.set(job, attempt, JobPhase::Done);
            }
            JobResult::Failed(why) => self.fail(at, job, attempt, why),
            JobResult::Aborted => self.set(job, attempt, JobPhase::Aborted),
        }
    }

    fn fail(&mut self, at: Moment, job: &Job, attempt: u32, why: &Why) {
        if !self.is_running(job, attempt) {
            return;
        }
        let effort = self.effort(job);
        if attempt < effort.attempts {
            let doubled = 1_u32 << attempt.saturating_sub(1).min(16);
            let delay = effort.delay.get();
            let wait = delay.saturating_mul(doubled).min(LONGEST_DELAY.max(delay));
            let until = at.after(wait);
            self.set(job, attempt, JobPhase::Waiting { until });
            if let Some(state) = self.jobs.get_mut(job) {
                state.attempt = attempt.saturating_add(1);
            }
        } else {
            self.set(job, attempt, JobPhase::Failed(why.clone()));
            let (job, why) = (job.clone(), why.clone());
            self.verdict.get_or_insert(RunOutcome::Failed { job, why });
        }
    }

    fn is_running(&self, job: &Job, attempt: u32) -> bool {
        let state = self.jobs.get(job);
        state.is_some_and(|state| state.is_running() && state.attempt == attempt)
    }

    /// Ends an attempt that is under way.
    fn set(&mut self, job: &Job, attempt: u32, phase: JobPhase) {
        if self.is_running(job, attempt)
            && let Some(state) = self.jobs.get_mut(job)
        {
            state.phase = phase;
            self.running = self.running.saturating_sub(1);
        }
    }

    /// What is to be done now.
    pub(crate) fn next(&self, now: Moment) -> Next {
        if self.over {
            return Next::default();
        }
        let outlook = Outlook::of(self);
        let deadline = self.accepted.after(self.workflow.timeout());
        if outlook.is_open() && !self.stopped && deadline <= now {
            return Next {
                entries: vec![Entry::Expired],
                ..Next::default()
            };
        }
        if let Some(outcome) = outlook.conclusion(self) {
            return Next {
                entries: vec![Entry::Over { outcome }],
                ..Next::default()
            };
        }
        let (begin, later) = outlook.begin(self, now);
        let entries = begin.into_iter().map(|(job, attempt)| Entry::Begun {
            job: job.clone(),
            attempt,
        });
        let deadline = (outlook.is_open() && !self.stopped).then_some(deadline);
        Next {
            entries: entries.collect(),
            abort: self.to_abort(),
            wake: later.into_iter().chain(deadline).min(),
        }
    }

    fn to_abort(&self) -> Vec<Job> {
        if !self.stopped {
            return Vec::new();
        }
        let running = self.jobs.iter().filter(|(_, state)| state.is_running());
        let jobs = running.map(|(job, _)| job).filter(|job| !job.is_clean());
        jobs.cloned().collect()
    }
}

impl JobState {
    /// Whether it is under way.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, JobPhase::Running { .. })
    }
}
