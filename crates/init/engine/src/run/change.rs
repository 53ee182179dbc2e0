//! A unit's state changed: its job may have ended by that, and other units may have to follow.

use super::{Pending, Step};
use crate::dep::{DepKind, Effect};
use crate::event::Do;
use crate::ids::{Span, UnitId};
use crate::job::{JobMode, JobPhase, JobResult, JobType, JobVerb, Origin};
use crate::protocol::{ActiveState, Input, Severity};
use crate::spec::RateLimit;

impl Step<'_> {
    pub(super) fn changed(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        self.note_times(unit, old, new);
        self.act(Do::StateChanged { unit, old, new });
        let restarting = self
            .state
            .job_of(unit)
            .is_some_and(|job| job.job_type == JobType::Restart);
        let expected = self.advance_job(unit, new);
        if !expected {
            self.follow(unit, old, new);
        }
        if new == ActiveState::Failed {
            self.start_on_failure(unit);
            let action = self.state.unit(unit).settings().failure_action;
            self.emergency(unit, action, "it failed");
        } else if new == ActiveState::Inactive && !old.is_down() && !restarting {
            self.start_on_success(unit);
            let action = self.state.unit(unit).settings().success_action;
            self.emergency(unit, action, "it ended");
        }
        self.tell_triggers(unit);
        self.recheck_neighbours(unit, new);
        self.ready_neighbours(unit);
    }

    /// A unit was found up whose start nobody remembers. Nothing follows from that: what it needs is there, or is not.
    pub(super) fn noticed(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        self.note_times(unit, old, new);
        self.act(Do::StateChanged { unit, old, new });
        self.tell_triggers(unit);
    }

    fn note_times(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        let now = self.state.now;
        let times = &mut self.state.unit_mut(unit).times;
        times.change = now;
        if old.is_down() && !new.is_down() {
            times.inactive_exit = now;
        }
        if !old.is_down() && new.is_down() {
            times.inactive_enter = now;
        }
        if !old.is_up() && new.is_up() {
            times.active_enter = now;
        }
        if old.is_up() && !new.is_up() {
            times.active_exit = now;
        }
    }

    /// Ends the unit's job if the change is what it waited for. Returns whether a job accounts for the change.
    fn advance_job(&mut self, unit: UnitId, new: ActiveState) -> bool {
        let Some(job) = self.state.job_of(unit) else {
            return false;
        };
        let (id, job_type) = (job.id, job.job_type);
        let running = matches!(job.phase, JobPhase::Running { .. });
        let end = |step: &mut Self, result| step.pending.push_back(Pending::Finish(id, result));
        match job_type {
            JobType::Start | JobType::VerifyActive => match new {
                state if state.is_up() => end(self, JobResult::Done),
                ActiveState::Failed if running => end(self, JobResult::Failed),
                ActiveState::Inactive if running => end(self, JobResult::Done),
                ActiveState::Activating => {}
                // It goes down while it waits to be started: that is nobody's doing here.
                _ => return false,
            },
            JobType::Reload if running => match new {
                ActiveState::Active if self.state.unit(unit).machine.reload_failed() => {
                    end(self, JobResult::Failed);
                }
                ActiveState::Active => end(self, JobResult::Done),
                ActiveState::Reloading | ActiveState::Activating => {}
                ActiveState::Failed => {
                    end(self, JobResult::Failed);
                    return false;
                }
                _ => {
                    end(self, JobResult::Done);
                    return false;
                }
            },
            JobType::Reload => return false,
            JobType::Stop | JobType::Restart => match new {
                state if state.is_down() => end(self, JobResult::Done),
                ActiveState::Deactivating => {}
                _ if running => end(self, JobResult::Failed),
                _ => return false,
            },
        }
        true
    }

    /// The unit changed without a job: what a job would have pulled in or taken along follows now.
    fn follow(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        let rising = old.is_down_or_falling() && new.is_up_or_rising();
        let falling = old.is_up_or_rising() && new.is_down_or_falling();
        if !rising && !falling {
            return;
        }
        let edges: Vec<(DepKind, UnitId)> = self
            .state
            .unit(unit)
            .edges()
            .iter()
            .map(|edge| (edge.kind, edge.to))
            .collect();
        for (kind, other) in edges {
            let state = self.state.unit(other).active();
            let origin = Origin::Dependency { unit, kind };
            for effect in kind.effects() {
                let (verb, mode) = match effect {
                    Effect::FollowStartReplace if rising && !state.is_up_or_rising() => {
                        (JobVerb::Start, JobMode::Replace)
                    }
                    Effect::FollowStartFail if rising && !state.is_up_or_rising() => {
                        (JobVerb::Start, JobMode::Fail)
                    }
                    Effect::FollowStopOnStart if rising && !state.is_down_or_falling() => {
                        (JobVerb::Stop, JobMode::Replace)
                    }
                    Effect::FollowStopOnStop if falling && !state.is_down_or_falling() => {
                        (JobVerb::Stop, JobMode::Replace)
                    }
                    _ => continue,
                };
                self.want_by_rule(other, verb, mode, origin.clone());
            }
        }
    }

    /// Sockets, timers, paths and automounts look at what they trigger.
    pub(super) fn tell_triggers(&mut self, unit: UnitId) {
        let record = self.state.unit(unit);
        let input = Input::TriggeredChanged {
            active: record.active(),
            outcome: record.machine.outcome(),
            start_pending: self
                .state
                .job_of(unit)
                .is_some_and(|job| matches!(job.job_type, JobType::Start | JobType::Restart)),
        };
        let triggers: Vec<UnitId> = record.deps(DepKind::TriggeredBy).collect();
        for trigger in triggers {
            self.pending
                .push_back(Pending::Deliver(trigger, input.clone()));
        }
    }

    fn recheck_neighbours(&mut self, unit: UnitId, new: ActiveState) {
        let edges: Vec<(DepKind, UnitId)> = self
            .state
            .unit(unit)
            .edges()
            .iter()
            .map(|edge| (edge.kind, edge.to))
            .collect();
        for (kind, other) in edges {
            for effect in kind.effects() {
                match effect {
                    Effect::RecheckOtherNeeds if new.is_down() => self.stop_if_unbound(other),
                    Effect::RecheckOtherUnneeded if new.is_down() => self.stop_if_unneeded(other),
                    Effect::KeepOtherUp if new.is_up() => self.start_if_upheld(other),
                    Effect::StartedWhileOtherUp if new.is_down() => self.start_if_upheld(unit),
                    _ => {}
                }
            }
        }
        if new.is_up() {
            self.stop_if_unneeded(unit);
            self.stop_if_unbound(unit);
        }
    }

    /// The rules that hold off while a unit has a job are looked at when it has none any more.
    pub(super) fn recheck_own_rules(&mut self, unit: UnitId) {
        self.start_if_upheld(unit);
        self.stop_if_unbound(unit);
        self.stop_if_unneeded(unit);
    }

    fn stop_if_unbound(&mut self, unit: UnitId) {
        let record = self.state.unit(unit);
        if record.active().is_down_or_falling() || record.job.is_some() {
            return;
        }
        let lost = record
            .with_effect(Effect::NeedsOtherActive)
            .find(|(_, other)| {
                self.state.unit(*other).active().is_down() && self.state.unit(*other).job.is_none()
            });
        if let Some((kind, other)) = lost {
            let origin = Origin::Dependency {
                unit: other,
                kind: kind.inverse(),
            };
            self.want_by_rule(unit, JobVerb::Stop, JobMode::Replace, origin);
        }
    }

    fn stop_if_unneeded(&mut self, unit: UnitId) {
        let record = self.state.unit(unit);
        let candidate =
            record.settings().stop_when_unneeded && record.active().is_up() && record.job.is_none();
        if !candidate {
            return;
        }
        let needed = record.with_effect(Effect::IsNeededBy).any(|(_, other)| {
            self.state.unit(other).active().is_up_or_rising()
                || self
                    .state
                    .job_of(other)
                    .is_some_and(|job| !matches!(job.job_type, JobType::Stop))
        });
        if !needed {
            let origin = Origin::Rule("StopWhenUnneeded".into());
            self.want_by_rule(unit, JobVerb::Stop, JobMode::Fail, origin);
        }
    }

    fn start_if_upheld(&mut self, unit: UnitId) {
        let record = self.state.unit(unit);
        if !record.active().is_down() || record.job.is_some() || self.state.shutting_down {
            return;
        }
        let by = record
            .with_effect(Effect::StartedWhileOtherUp)
            .find(|(_, other)| self.state.unit(*other).active().is_up());
        if let Some((kind, other)) = by {
            let origin = Origin::Dependency {
                unit: other,
                kind: kind.inverse(),
            };
            self.want_by_rule(unit, JobVerb::Start, JobMode::Fail, origin);
        }
    }

    /// What one unit's state asks of another (Upholds, BindsTo, OnFailure, StopWhenUnneeded ...) may contradict what a third
    /// asks, or may fail at once and so be asked again: so often in so long a time, and the unit is left alone until
    /// somebody acts on it.
    pub(super) fn want_by_rule(
        &mut self,
        unit: UnitId,
        verb: JobVerb,
        mode: JobMode,
        origin: Origin,
    ) {
        let now = self.state.now.monotonic;
        let record = self.state.unit_mut(unit);
        if record.by_rule.would_exceed(RULE_LIMIT, now) {
            let verb = verb.as_str();
            let message = format!("A {verb} that its dependencies ask for failed too often.");
            return self.log(Severity::Warning, unit, message);
        }
        record.by_rule.count(RULE_LIMIT, now);
        self.want_later(unit, verb, mode, origin);
    }
}

/// How often dependencies alone may start or stop a unit.
const RULE_LIMIT: RateLimit = RateLimit {
    interval: Span::secs(10),
    burst: 16,
};
