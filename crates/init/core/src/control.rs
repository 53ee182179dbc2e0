//! The control socket: `io.muster.Manager` for `sctl` and others.

use std::os::fd::BorrowedFd;

use muster_engine::event::Answer;
use muster_engine::ids::{JobId, RequestId, Time, UnitId};
use muster_engine::job::{JobResult, JobType};
use muster_engine::protocol::ActiveState;

use crate::core::{Core, CoreError};
use crate::platform::Ready;
use crate::recover::Kept;

/// Clients, what they wait for, and what came with their requests.
#[derive(Debug, Default)]
pub(crate) struct Control {}

impl Control {
    /// Whether a client waits for this request.
    pub(crate) fn is_waiting(&self, _request: RequestId) -> bool {
        false
    }

    /// The exit code that a client asked to end with.
    pub(crate) fn exit_code(&self) -> u8 {
        0
    }

    /// Processes that a client wants in a scope.
    pub(crate) fn scope_processes(&self, _unit: UnitId) -> Vec<u32> {
        Vec::new()
    }

    /// Standard streams that came with the request for a unit.
    pub(crate) fn stdio_of(&self, _unit: UnitId) -> Option<[BorrowedFd<'_>; 3]> {
        None
    }

    /// The run that these streams were for is over.
    pub(crate) fn forget_stdio(&mut self, _unit: UnitId) {}
}

impl Core {
    /// Opens the control socket, or takes the one that was kept.
    ///
    /// # Errors
    /// If it can neither be taken nor made.
    pub(crate) fn open_control(&mut self, kept: &mut Kept) -> Result<(), CoreError> {
        drop(kept.take("control"));
        Ok(())
    }

    /// Something at the control socket is ready.
    pub(crate) fn control_ready(&mut self, _ready: Ready) {}

    /// Everything that came in is applied: replies go out, and calls that waited for that are answered.
    pub(crate) fn control_settled(&mut self) {}

    /// When a client's time is over.
    pub(crate) fn control_deadline(&self) -> Option<Time> {
        None
    }

    /// Clients whose time is over are let go.
    pub(crate) fn control_time_has_passed(&mut self) {}

    /// How a request was taken.
    pub(crate) fn control_answer(&mut self, _request: RequestId, _answer: &Answer) {}

    /// A job was queued.
    pub(crate) fn control_job_added(&mut self, _job: JobId) {}

    /// A job ended.
    pub(crate) fn control_job_ended(
        &mut self,
        _job: JobId,
        _unit: UnitId,
        _kind: JobType,
        _result: JobResult,
        _waiters: &[RequestId],
    ) {
    }

    /// A unit's state changed.
    pub(crate) fn control_state_changed(
        &mut self,
        _unit: UnitId,
        _old: ActiveState,
        _new: ActiveState,
    ) {
    }

    /// Unit files were read again.
    pub(crate) fn control_reloaded(&mut self) {}
}
