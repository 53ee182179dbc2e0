//! Where a test may kill a program that keeps runs: on both sides of everything that lasts.

use muster_fault::{Point, hit};

use crate::entry::Entry;
use crate::job::Job;

muster_fault::points! {
    /// Something was decided; nothing is written down.
    pub(crate) DECIDED = "orchestrate.decided",
    /// A run is written down; nobody was told, and nothing was begun.
    pub(crate) ACCEPTED = "orchestrate.accepted",
    /// That a machine is to be provided is written down; the registry has not been asked.
    pub(crate) PROVISION_BEGUN = "orchestrate.provision-begun",
    /// The registry has taken an order; whose machine that is, is not written down.
    pub(crate) ORDERED = "orchestrate.ordered",
    /// A machine runs; that is not written down.
    pub(crate) PROVISION_DONE = "orchestrate.provision-done",
    /// That a machine is to be waited for is written down; it has not been tried.
    pub(crate) READY_BEGUN = "orchestrate.ready-begun",
    /// A machine answered; that is not written down.
    pub(crate) READY_DONE = "orchestrate.ready-done",
    /// That a step is begun is written down; nothing was done on the machine.
    pub(crate) WORK_BEGUN = "orchestrate.work-begun",
    /// A step is over; that is not written down.
    pub(crate) WORK_DONE = "orchestrate.work-done",
    /// That a machine is to be cleaned up is written down; the registry has not been asked.
    pub(crate) CLEAN_BEGUN = "orchestrate.clean-begun",
    /// A machine is cleaned up; that is not written down.
    pub(crate) CLEAN_DONE = "orchestrate.clean-done",
    /// The end of a job is written down; nothing follows from it yet.
    pub(crate) ENDED = "orchestrate.ended",
    /// That a run is over is written down; nobody was told.
    pub(crate) OVER = "orchestrate.over",
    /// A run is removed from the database; its log is still there.
    pub(crate) REMOVED = "orchestrate.removed",
}

/// An entry is on disk, and nothing else has been done about it.
pub(crate) fn hit_written(entry: &Entry) {
    let point: Point = match entry {
        Entry::Accepted => ACCEPTED,
        Entry::Begun { job, .. } => match job {
            Job::Provision(_) => PROVISION_BEGUN,
            Job::Ready(_) => READY_BEGUN,
            Job::Work { .. } => WORK_BEGUN,
            Job::Clean(_) => CLEAN_BEGUN,
        },
        Entry::Ended { .. } => ENDED,
        Entry::Over { .. } => OVER,
        Entry::Interrupted { .. } | Entry::CancelAsked | Entry::Expired => return,
    };
    hit(point);
}

/// A job is over, and nothing of it is on disk.
pub(crate) fn hit_done(job: &Job) {
    hit(match job {
        Job::Provision(_) => PROVISION_DONE,
        Job::Ready(_) => READY_DONE,
        Job::Work { .. } => WORK_DONE,
        Job::Clean(_) => CLEAN_DONE,
    });
}
