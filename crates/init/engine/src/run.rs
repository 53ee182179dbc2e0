//! Applying an event: the only way in which the state changes.
//!
//! One event is carried through to rest: whatever follows from it without help from outside (a target that comes up, a
//! dependency that fails with it, a job that may run now) happens before [`EngineState::apply`] returns. What needs the
//! outside becomes an [`Action`], and its outcome a later event. Nothing recurses: follow-ups wait in a queue, so that a
//! chain of ten thousand units needs no more stack than one.

mod change;
mod finish;
mod jobs;
mod load;

use std::collections::{BTreeSet, VecDeque};

use crate::event::{Action, Answer, Do, Event, Request, What};
use crate::ids::{ActionId, InvocationId, JobId, UnitId};
use crate::job::{JobMode, JobResult, JobVerb, Origin};
use crate::protocol::{ActiveState, Context, Input, Output, Severity};
use crate::state::{Due, EngineState};
use crate::transaction::{Refusal, Wanted};

impl EngineState {
    /// Takes an event in and says what is to be done. The same events from the same state give the same state and actions.
    ///
    /// Events about units that are no longer known are ignored: an exit may be reported after its unit was collected.
    pub fn apply(&mut self, event: &Event) -> Vec<Action> {
        // The monotonic clock does not go back; an executor that says so has mixed up its events.
        let monotonic = self.now.monotonic.max(event.clock.monotonic);
        self.now = crate::ids::Clock {
            monotonic,
            real: event.clock.real,
        };
        let mut step = Step {
            state: self,
            actions: Vec::new(),
            pending: VecDeque::new(),
            ready: BTreeSet::new(),
            entropy: event.entropy,
            drawn: 0,
        };
        step.take(&event.what);
        step.settle();
        step.actions
    }
}

/// The work that one event causes.
pub(crate) struct Step<'a> {
    pub(crate) state: &'a mut EngineState,
    actions: Vec<Action>,
    pending: VecDeque<Pending>,
    /// Jobs that may be able to run now.
    pub(crate) ready: BTreeSet<JobId>,
    entropy: InvocationId,
    drawn: u32,
}

/// A follow-up within the same event.
enum Pending {
    Deliver(UnitId, Input),
    Changed {
        unit: UnitId,
        old: ActiveState,
        new: ActiveState,
    },
    Want(Wanted),
    Finish(JobId, JobResult),
}

impl Step<'_> {
    fn take(&mut self, what: &What) {
        match what {
            What::Loaded(units) => self.load(units),
            What::Unloaded(names) => self.unload(names),
            What::Request(request) => self.request(request),
            What::Cancel(job) => self
                .pending
                .push_back(Pending::Finish(*job, JobResult::Canceled)),
            What::ResetFailed(name) => self.reset_failed(name.as_deref()),
            What::Checked { unit, verdicts } => self.checked(*unit, verdicts),
            What::Unit { unit, input } => {
                if self.state.get(*unit).is_some() {
                    self.pending
                        .push_back(Pending::Deliver(*unit, input.clone()));
                }
            }
            What::Tick => {}
            What::ShutdownBegun => self.state.shutting_down = true,
        }
        self.expire_deadlines();
    }

    fn settle(&mut self) {
        loop {
            if let Some(next) = self.pending.pop_front() {
                match next {
                    Pending::Deliver(unit, input) => self.deliver(unit, input),
                    Pending::Changed { unit, old, new } => self.changed(unit, old, new),
                    Pending::Want(wanted) => {
                        self.want(&wanted, None);
                    }
                    Pending::Finish(job, result) => self.finish(job, result),
                }
            } else if let Some(job) = self.ready.pop_first() {
                self.try_run(job);
            } else if !self.wake_idle() {
                return;
            }
        }
    }

    /// When nothing else is left to do, services that wait for that may go on.
    fn wake_idle(&mut self) -> bool {
        let waiting = |state: &EngineState, unit: UnitId| state.unit(unit).machine.waits_for_idle();
        let busy = self
            .state
            .jobs
            .values()
            .any(|job| !waiting(self.state, job.unit));
        if busy {
            return false;
        }
        // An idle service counts as up while it is held back, so its own job may be long gone.
        let idle: Vec<UnitId> = self
            .state
            .units()
            .filter(|(_, unit)| unit.machine.waits_for_idle())
            .map(|(id, _)| id)
            .collect();
        for unit in &idle {
            self.pending.push_back(Pending::Deliver(*unit, Input::Idle));
        }
        !idle.is_empty()
    }

    fn request(&mut self, request: &Request) {
        let answer = match self.try_request(request) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        };
        self.act(Do::Answer {
            request: request.id,
            answer,
        });
    }

    fn try_request(&mut self, request: &Request) -> Result<Answer, Refusal> {
        let unit = self
            .state
            .find(&request.unit)
            .ok_or_else(|| Refusal::UnknownUnit(request.unit.clone()))?;
        let settings = self.state.unit(unit).settings();
        let refused = match request.verb {
            JobVerb::Start => settings.refuse_manual_start,
            JobVerb::Stop => settings.refuse_manual_stop,
            JobVerb::Restart | JobVerb::TryRestart => {
                settings.refuse_manual_start || settings.refuse_manual_stop
            }
            _ => false,
        };
        if request.manual && refused {
            let unit = self.state.name(unit);
            return Err(Refusal::ManualRefused {
                unit,
                verb: request.verb,
            });
        }
        let wanted = Wanted {
            unit,
            verb: request.verb,
            mode: request.mode,
            origin: Origin::Request(request.id),
        };
        let plan = self.state.plan(&wanted)?;
        if request.manual {
            // Whoever asks by hand has seen why it failed; the limit is there to stop machines, not people.
            self.state.unit_mut(unit).starts = crate::state::RateWindow::default();
        }
        Ok(self
            .install(&plan, Some(request.id))
            .map_or(Answer::Nothing, Answer::Job))
    }

    /// Plans and queues something that the engine itself wants. A refusal is logged: nobody is there to be told.
    pub(crate) fn want(&mut self, wanted: &Wanted, why: Option<&str>) {
        match self.state.plan(wanted) {
            Ok(plan) => {
                self.install(&plan, None);
            }
            Err(refusal) => {
                let what = why.unwrap_or("a follow-up job");
                self.log(
                    Severity::Warning,
                    wanted.unit,
                    format!("Cannot queue {what}: {refusal}"),
                );
                if wanted.origin == Origin::AutoRestart {
                    // Its pause is over and will not come again.
                    self.pending
                        .push_back(Pending::Deliver(wanted.unit, Input::RestartRefused));
                }
            }
        }
    }

    pub(crate) fn want_later(
        &mut self,
        unit: UnitId,
        verb: JobVerb,
        mode: JobMode,
        origin: Origin,
    ) {
        self.pending.push_back(Pending::Want(Wanted {
            unit,
            verb,
            mode,
            origin,
        }));
    }

    fn install(
        &mut self,
        plan: &crate::transaction::Plan,
        waiter: Option<crate::ids::RequestId>,
    ) -> Option<JobId> {
        for (unit, remark) in &plan.remarks {
            self.log(Severity::Warning, *unit, remark.clone());
        }
        let installed = self.state.install(plan, waiter);
        for (job, result) in installed.ended {
            self.ended(job, result);
        }
        for job in installed.added {
            self.act(Do::JobAdded(job));
        }
        for job in installed.touched {
            self.ready.insert(job);
            if let Some(unit) = self.state.job(job).map(|job| job.unit) {
                self.ready_neighbours(unit);
            }
        }
        installed.anchor
    }

    fn reset_failed(&mut self, name: Option<&str>) {
        let units: Vec<UnitId> = match name {
            Some(name) => self.state.find(name).into_iter().collect(),
            None => self.state.units().map(|(id, _)| id).collect(),
        };
        for unit in units {
            self.state.unit_mut(unit).starts = crate::state::RateWindow::default();
            self.pending
                .push_back(Pending::Deliver(unit, Input::ResetFailed));
        }
    }

    fn expire_deadlines(&mut self) {
        while let Some(due) = self.state.take_due(self.state.now.monotonic) {
            self.pending.push_back(match due {
                Due::Unit(unit, kind) => Pending::Deliver(unit, Input::Deadline(kind)),
                Due::Job(job) => Pending::Finish(job, JobResult::Timeout),
            });
        }
    }

    /// Hands an input to a unit's type and carries its answers out.
    pub(crate) fn deliver(&mut self, unit: UnitId, input: Input) {
        let Some(record) = self.state.get(unit) else {
            return;
        };
        let settings = record.settings();
        let job = self.state.job_of(unit).map(|job| job.job_type);
        let triggered = record.deps(crate::dep::DepKind::Triggers).next();
        let context = Context {
            now: self.state.now,
            stop_pending: job == Some(crate::job::JobType::Stop),
            restart_pending: job == Some(crate::job::JobType::Restart),
            invocation: record.invocation,
            triggered: triggered.map(|id| self.state.unit(id).as_triggered()),
            start_limit_hit: record
                .starts
                .would_exceed(settings.start_limit, self.state.now.monotonic),
            shutting_down: self.state.shutting_down,
        };
        let started = matches!(input, Input::Start { .. });
        let reloaded = matches!(input, Input::Reload);
        let found = matches!(input, Input::Found { .. });
        let record = self.state.unit_mut(unit);
        let old = record.active();
        let accepted_reload = record.machine.accepts_reload();
        let mut outputs = Vec::new();
        record
            .machine
            .handle(record.spec.as_deref(), &context, input, &mut outputs);
        let new = record.active();
        let invocation = record.invocation;
        // A device waits for its hardware in the state that it is in; a service was up for no time at all.
        let started = started && matches!(record.machine, crate::types::Machine::Service(_));
        if !accepted_reload && record.machine.accepts_reload() {
            // It counted as up before: no change of state tells the reload that waited for this.
            self.ready.extend(record.job);
        }
        for output in outputs {
            self.output(unit, invocation, output);
        }
        if old != new && found {
            self.noticed(unit, old, new);
        } else if old != new {
            self.pending.push_back(Pending::Changed { unit, old, new });
        } else if started && new.is_down() {
            // It had nothing to run and is down again: whoever waits for that run is told that there was one.
            self.passed_through(unit, old, ActiveState::Activating);
        } else if reloaded {
            // Its commands for that are gone since the job was queued: nothing was to be done, and that is done.
            self.passed_through(unit, old, ActiveState::Reloading);
        }
    }

    /// The unit was in a state within one event and is back where it was.
    fn passed_through(&mut self, unit: UnitId, rest: ActiveState, between: ActiveState) {
        for (old, new) in [(rest, between), (between, rest)] {
            self.pending.push_back(Pending::Changed { unit, old, new });
        }
    }

    fn output(&mut self, unit: UnitId, invocation: InvocationId, output: Output) {
        match output {
            Output::Deadline { kind, at } => self.state.set_unit_deadline(unit, kind, at),
            Output::Restart => {
                self.want_later(
                    unit,
                    JobVerb::Restart,
                    JobMode::Replace,
                    Origin::AutoRestart,
                );
            }
            Output::Trigger { connection: None } => self.trigger(unit, JobVerb::Start),
            Output::StopTriggered => self.trigger(unit, JobVerb::Stop),
            Output::Log(severity, message) => self.log(severity, unit, message.into_string()),
            output => self.act(Do::Unit {
                unit,
                invocation,
                output,
            }),
        }
    }

    fn trigger(&mut self, unit: UnitId, verb: JobVerb) {
        let triggered = self
            .state
            .unit(unit)
            .deps(crate::dep::DepKind::Triggers)
            .next();
        match triggered {
            Some(target) => {
                self.want_later(target, verb, JobMode::Replace, Origin::Trigger(unit));
            }
            None => self.log(Severity::Error, unit, "There is nothing to trigger.".into()),
        }
    }

    pub(crate) fn act(&mut self, what: Do) {
        self.state.last_action += 1;
        self.actions.push(Action {
            id: ActionId(self.state.last_action),
            what,
        });
    }

    pub(crate) fn log(&mut self, severity: Severity, unit: UnitId, message: String) {
        self.act(Do::Log {
            severity,
            unit: Some(unit),
            message: message.into(),
        });
    }

    /// An id for a new run: different for every run, the same when the event is replayed.
    pub(crate) fn draw_invocation(&mut self) -> InvocationId {
        self.drawn += 1;
        // Multiplying by an odd constant is a bijection, so two draws of one event cannot meet.
        let step = u128::from(self.drawn).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        InvocationId(self.entropy.0 ^ step)
    }
}
