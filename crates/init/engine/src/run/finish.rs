//! The end of a job, and whom it takes along.

use super::{Pending, Step};
use crate::dep::{DepKind, Effect};
use crate::event::Do;
use crate::ids::{JobId, UnitId};
use crate::job::{Job, JobMode, JobPhase, JobResult, JobType, JobVerb, Origin};
use crate::protocol::Severity;
use crate::spec::EmergencyAction;

impl Step<'_> {
    /// Ends a job with a result.
    pub(super) fn finish(&mut self, id: JobId, result: JobResult) {
        let Some(job) = self.state.job(id) else {
            return;
        };
        if result == JobResult::Done && job.job_type == JobType::Restart {
            return self.turn_restart_into_start(id);
        }
        let Some(job) = self.state.take_job(id) else {
            return;
        };
        if result == JobResult::Timeout {
            let action = self.state.unit(job.unit).settings().job_timeout_action;
            let message = format!("The {} job took too long.", job.job_type.as_str());
            self.log(Severity::Error, job.unit, message);
            self.emergency(job.unit, action, "its job timed out");
        }
        self.ended(job, result);
    }

    /// The unit is down: the second half of the restart is a start, ordered as one.
    fn turn_restart_into_start(&mut self, id: JobId) {
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.job_type = JobType::Start;
            let unit = job.unit;
            if job.doomed {
                return self
                    .pending
                    .push_back(Pending::Finish(id, JobResult::Dependency));
            }
            self.state.set_job_phase(id, JobPhase::Waiting);
            self.ready_neighbours(unit);
        }
    }

    /// A job has left the queue.
    pub(super) fn ended(&mut self, job: Job, result: JobResult) {
        let Job {
            id,
            unit,
            job_type,
            waiters,
            ..
        } = job;
        self.act(Do::JobEnded {
            job: id,
            unit,
            job_type,
            result,
            waiters,
        });
        let up = self.state.unit(unit).active().is_up();
        let starting = matches!(job_type, JobType::Start | JobType::VerifyActive);
        if !result.is_good() && result != JobResult::Canceled {
            if starting {
                self.fail_dependents(unit, Effect::PropagateStartFailure);
            } else if job_type == JobType::Stop {
                self.fail_dependents(unit, Effect::PropagateStopFailure);
            }
        } else if matches!(job_type, JobType::Start | JobType::Reload) && result.is_good() && !up {
            self.fail_dependents(unit, Effect::PropagateInactiveStartAsFailure);
        } else if result == JobResult::Canceled && starting {
            self.fail_dependents(unit, Effect::PropagateStartFailure);
        }
        if matches!(result, JobResult::Timeout | JobResult::Dependency)
            && job_type == JobType::Start
        {
            self.start_on_failure(unit);
        }
        self.recheck_own_rules(unit);
        // A start that ended without any change of state must not leave its trigger waiting for one.
        if starting {
            self.tell_triggers(unit);
        }
        self.ready_neighbours(unit);
    }

    fn fail_dependents(&mut self, unit: UnitId, effect: Effect) {
        let dependents: Vec<JobId> = self
            .state
            .unit(unit)
            .with_effect(effect)
            .filter_map(|(_, other)| self.state.unit(other).job)
            .collect();
        for id in dependents {
            let Some(job) = self.state.jobs.get_mut(&id) else {
                continue;
            };
            match job.job_type {
                JobType::Start | JobType::VerifyActive => {
                    self.pending
                        .push_back(Pending::Finish(id, JobResult::Dependency));
                }
                JobType::Restart => job.doomed = true,
                JobType::Stop | JobType::Reload => {}
            }
        }
    }

    pub(super) fn start_on_failure(&mut self, unit: UnitId) {
        self.start_followers(unit, DepKind::OnFailure);
    }

    pub(super) fn start_on_success(&mut self, unit: UnitId) {
        self.start_followers(unit, DepKind::OnSuccess);
    }

    fn start_followers(&mut self, unit: UnitId, kind: DepKind) {
        let record = self.state.unit(unit);
        let mode: JobMode = match kind {
            DepKind::OnFailure => record.settings().on_failure_mode,
            _ => record.settings().on_success_mode,
        };
        let followers: Vec<UnitId> = record.deps(kind).collect();
        for follower in followers {
            let origin = Origin::Dependency { unit, kind };
            self.want_by_rule(follower, JobVerb::Start, mode, origin);
        }
    }

    pub(super) fn emergency(&mut self, unit: UnitId, action: EmergencyAction, reason: &str) {
        if action != EmergencyAction::None {
            self.act(Do::Emergency {
                action,
                unit,
                reason: reason.into(),
            });
        }
    }
}
