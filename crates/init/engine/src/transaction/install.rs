//! The last steps of a plan: leave out what is done already, refuse what may not be replaced, and queue the rest.

use super::{Plan, Refusal};
use crate::ids::{JobId, UnitId};
use crate::ids::{RequestId, Time};
use crate::job::{Job, JobMode, JobPhase, JobResult, Origin};
use crate::state::EngineState;

/// Leaves out jobs whose unit is already as they want it, unless another job is about to change that.
pub(super) fn trim(state: &EngineState, plan: &mut Plan, mode: JobMode) {
    let anchor = plan.anchor;
    plan.jobs.retain(|unit, planned| {
        let record = state.unit(*unit);
        let queued = state.job_of(*unit);
        if mode == JobMode::Fail && !planned.needed && *unit != anchor {
            // Nothing that runs is disturbed for the sake of something optional.
            let disturbs = planned.job_type.stops() && record.active().is_up_or_rising();
            let reverses = queued.is_some_and(|job| job.job_type.merge(planned.job_type).is_none());
            if disturbs || reverses {
                return false;
            }
        }
        *unit == anchor || queued.is_some() || !planned.job_type.is_redundant(record.active())
    });
}

/// Refuses a plan that would replace a job which may not be replaced.
pub(super) fn check_replaceable(
    state: &EngineState,
    plan: &Plan,
    mode: JobMode,
) -> Result<(), Refusal> {
    for (unit, planned) in &plan.jobs {
        let Some(queued) = state.job_of(*unit) else {
            continue;
        };
        let conflicts = queued.job_type.merge(planned.job_type).is_none();
        if conflicts && (mode == JobMode::Fail || queued.irreversible) {
            return Err(Refusal::InTheWay {
                unit: state.name(*unit),
                queued: queued.job_type,
                wanted: planned.job_type,
            });
        }
    }
    Ok(())
}

/// What installing a plan did.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    /// The anchor's job.
    pub(crate) anchor: Option<JobId>,
    /// Jobs that are new or changed: look whether they can run.
    pub(crate) touched: Vec<JobId>,
    /// Jobs that gave way.
    pub(crate) ended: Vec<(Job, JobResult)>,
    /// Jobs that are new.
    pub(crate) added: Vec<JobId>,
}

impl EngineState {
    /// Queues the jobs of a plan. Cannot fail: whatever could be refused was refused by `plan`.
    pub(crate) fn install(&mut self, plan: &Plan, waiter: Option<RequestId>) -> Installed {
        let now = self.now.monotonic;
        let mut installed = Installed::default();
        if plan.drop_others {
            let others: Vec<JobId> = self
                .jobs
                .values()
                .filter(|job| !job.irreversible && !plan.jobs.contains_key(&job.unit))
                .map(|job| job.id)
                .collect();
            for job in others {
                installed
                    .ended
                    .extend(self.take_job(job).map(|job| (job, JobResult::Canceled)));
            }
        }
        for (unit, planned) in &plan.jobs {
            let id = self.install_one(*unit, planned, now, &mut installed);
            installed.touched.push(id);
            if *unit == plan.anchor {
                installed.anchor = Some(id);
            }
        }
        if let (Some(anchor), Some(waiter)) = (installed.anchor, waiter)
            && let Some(job) = self.jobs.get_mut(&anchor)
        {
            job.waiters.push(waiter);
        }
        installed
    }

    fn install_one(
        &mut self,
        unit: UnitId,
        planned: &super::Planned,
        now: Time,
        installed: &mut Installed,
    ) -> JobId {
        let active = self.unit(unit).active();
        if let Some(queued) = self.unit(unit).job {
            let job = self.jobs.get_mut(&queued).expect("a unit's job is queued");
            let merged = job
                .job_type
                .merge(planned.job_type)
                .and_then(|verb| verb.settle(active));
            if let Some(merged) = merged {
                let running = matches!(job.phase, JobPhase::Running { .. } | JobPhase::Checking);
                let mut begin_again = false;
                if !(running && job.job_type.covers(planned.job_type)) {
                    // Begun already, but not enough: it begins again as what both want.
                    job.job_type = merged;
                    job.doomed = false;
                    begin_again = true;
                }
                job.irreversible |= planned.irreversible;
                job.ignore_order |= planned.ignore_order;
                if begin_again {
                    self.set_job_phase(queued, JobPhase::Waiting);
                }
                return queued;
            }
            let ended = self.take_job(queued).expect("a unit's job is queued");
            installed.ended.push((ended, JobResult::Canceled));
        }
        let id = self.queue_job(unit, planned, now);
        installed.added.push(id);
        id
    }

    fn queue_job(&mut self, unit: UnitId, planned: &super::Planned, now: Time) -> JobId {
        self.last_job += 1;
        let id = JobId(self.last_job);
        let origin: Origin = planned.origin.clone();
        let settings = self.unit(unit).settings();
        let (timeout, running_timeout) = (settings.job_timeout, settings.job_running_timeout);
        self.jobs.insert(
            id,
            Job {
                id,
                unit,
                job_type: planned.job_type,
                irreversible: planned.irreversible,
                ignore_order: planned.ignore_order,
                doomed: false,
                phase: JobPhase::Waiting,
                queued: now,
                timeout,
                running_timeout,
                origin,
                waiters: Vec::new(),
            },
        );
        self.unit_mut(unit).job = Some(id);
        self.note_job(id);
        id
    }

    /// Takes a job out of the queue.
    pub(crate) fn take_job(&mut self, id: JobId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.forget_job(&job);
        self.unit_mut(job.unit).job = None;
        Some(job)
    }
}
