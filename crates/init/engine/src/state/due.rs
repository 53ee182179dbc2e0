//! What is due when: one ordered index over the deadlines of units and jobs, so that an event costs what it changes and not
//! what there is. It is derived: not written, and built again from the state when that is read.

use std::collections::BTreeSet;

use super::EngineState;
use crate::ids::{JobId, Time, UnitId};
use crate::job::{Job, JobPhase};
use crate::protocol::DeadlineKind;

/// Something with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A deadline that a unit's type has set.
    Unit(UnitId, DeadlineKind),
    /// A job that has taken too long by then.
    Job(JobId),
}

impl EngineState {
    /// The next moment at which something is over, if nothing else happens first.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the earliest deadline that is over.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Due> {
        let (at, due) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.remove(&(at, due));
        if let Due::Unit(unit, kind) = due {
            self.unit_mut(unit).deadlines.remove(&kind);
        }
        Some(due)
    }

    /// Sets, moves or cancels a deadline of a unit's type.
    pub(crate) fn set_unit_deadline(&mut self, unit: UnitId, kind: DeadlineKind, at: Option<Time>) {
        let deadlines = &mut self.unit_mut(unit).deadlines;
        let old = match at {
            Some(at) => deadlines.insert(kind, at),
            None => deadlines.remove(&kind),
        };
        let due = Due::Unit(unit, kind);
        if let Some(old) = old {
            self.due.remove(&(old, due));
        }
        self.due.extend(at.map(|at| (at, due)));
    }

    /// Moves a job to another phase, and its deadline with it.
    pub(crate) fn set_job_phase(&mut self, id: JobId, phase: JobPhase) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let old = self.job_deadline(job);
        let job = self.jobs.get_mut(&id).expect("it was just there");
        job.phase = phase;
        let job = &self.jobs[&id];
        let new = self.job_deadline(job);
        self.due.extend(new.map(|at| (at, Due::Job(id))));
        if let Some(old) = old.filter(|old| Some(*old) != new) {
            self.due.remove(&(old, Due::Job(id)));
        }
    }

    /// A job was queued.
    pub(crate) fn note_job(&mut self, id: JobId) {
        let at = self.jobs.get(&id).and_then(|job| self.job_deadline(job));
        self.due.extend(at.map(|at| (at, Due::Job(id))));
    }

    /// A job leaves the queue.
    pub(crate) fn forget_job(&mut self, job: &Job) {
        if let Some(at) = self.job_deadline(job) {
            self.due.remove(&(at, Due::Job(job.id)));
        }
    }

    /// When a job has taken too long, by the settings that its unit had when it was queued.
    fn job_deadline(&self, job: &Job) -> Option<Time> {
        let queued = job.queued.after(job.timeout);
        let running = match job.phase {
            JobPhase::Running { since } => since.after(job.running_timeout),
            JobPhase::Waiting | JobPhase::Checking => None,
        };
        queued.into_iter().chain(running).min()
    }

    /// The index, from nothing.
    pub(crate) fn build_due(&mut self) {
        let of_units = self.units().flat_map(|(id, unit)| {
            let deadlines = unit.deadlines.iter();
            deadlines.map(move |(kind, at)| (*at, Due::Unit(id, *kind)))
        });
        let of_jobs = self
            .jobs
            .values()
            .filter_map(|job| Some((self.job_deadline(job)?, Due::Job(job.id))));
        let due: BTreeSet<(Time, Due)> = of_units.chain(of_jobs).collect();
        self.due = due;
    }
}
