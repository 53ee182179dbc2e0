//! Sockets, timers, paths, mounts, swaps, devices, PID files, conditions, generators: what starts units, and what units
//! wait for.
//!
//! [`Activation`] has the descriptors and tables; the requests of units come in through [`Core::activate`], and what the
//! kernel reports through [`Core::activation_ready`] and [`Core::activation_time_has_passed`]. The system calls are those
//! of [`muster_activation`].
//!
//! What was asked for is in core's memory ([`crate::memory::Watches`]), and descriptors that must not die with this core
//! are with `muster-init`: [`Core::restore_activation`] makes one from both.

mod bus;
mod checks;
mod connections;
mod devices;
mod generators;
mod paths;
mod reasons;
mod sockets;
mod tables;
mod timers;

use std::error::Error;
use std::os::fd::BorrowedFd;

use muster_activation::conditions::ConditionHost;
use muster_activation::generators::GeneratorRun;
use muster_engine::event::LoadedUnit;
use muster_engine::ids::{Time, UnitId};
use muster_engine::protocol::{Input, Output, Severity};

use super::stored::StoredTable;
use crate::core::Core;
use crate::platform::{Ready, Token};
use crate::recover::Kept;

const EOPNOTSUPP: i32 = 95;

/// Descriptors and tables of everything that starts units.
#[derive(Debug, Default)]
pub(crate) struct Activation {
    /// Descriptors that services asked to be kept.
    pub(crate) stored: StoredTable,
    bus: bus::BusTable,
    sockets: sockets::SocketTable,
    connections: connections::ConnectionTable,
    paths: paths::PathTable,
    reasons: reasons::Reasons,
    timers: timers::TimerTable,
    tables: tables::KernelTables,
    devices: devices::DeviceUnits,
    /// Generators of a reload that take longer than it waited.
    generators: Option<GeneratorRun>,
    /// The next reload is because they are done: they are not run for it again.
    generated: bool,
    /// The machine, as conditions see it; `None` until the first is looked at.
    conditions: Option<ConditionHost>,
    /// So many units were told what the kernel says about them.
    told: usize,
    /// The last change after which units were counted; `None` if they must be.
    counted: Option<u64>,
}

impl Activation {
    /// Listening sockets that a service is started with: descriptor and name.
    pub(crate) fn passed_to(&self, unit: UnitId) -> Vec<(BorrowedFd<'_>, &str)> {
        self.sockets.passed_to(unit)
    }

    /// The connection that a unit serves (`Accept=yes`).
    pub(crate) fn connection_of(&self, unit: UnitId) -> Option<BorrowedFd<'_>> {
        self.connections.fd_of(unit)
    }

    /// Who is at the other end of that connection: address and port.
    pub(crate) fn remote_of(&self, unit: UnitId) -> Option<(String, Option<u16>)> {
        self.connections.remote_of(unit)
    }

    /// Units were loaded that may not know what the kernel says about them.
    pub(crate) fn look_again(&mut self) {
        self.counted = None;
        self.told = usize::MAX;
    }

    /// A unit is down: whatever connection it served, and whoever started it.
    pub(crate) fn forget_run(&mut self, unit: UnitId) {
        self.connections.service_ended(unit);
        self.reasons.forget(unit);
    }
}

/// Those of the units that stand for something that the kernel has.
pub(crate) fn from_kernel(loaded: &[LoadedUnit]) -> Vec<Box<str>> {
    let stands_for_something = |name: &str| {
        let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
        matches!(suffix, Some("mount" | "swap" | "device"))
    };
    let names = loaded.iter().map(|unit| &unit.name);
    names
        .filter(|name| stands_for_something(name))
        .cloned()
        .collect()
}

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text.push('.');
    text
}

impl Core {
    /// Does what a unit asked for, where it is about activation.
    pub(super) fn activate(&mut self, unit: UnitId, output: &Output) {
        match output {
            Output::OpenSockets => self.open_sockets(unit),
            Output::CloseSockets => self.close_sockets(unit),
            Output::WatchSockets(on) => self.watch_sockets(unit, *on),
            Output::FlushSockets => self.flush_sockets(unit),
            Output::Trigger {
                connection: Some(number),
            } => self.serve_later(unit, *number),
            Output::DropConnection { number } => self.drop_connection(unit, *number),
            Output::WatchPaths(on) => self.watch_paths(unit, *on),
            Output::MakeDirectories => self.make_watched_directories(unit),
            Output::WatchPidFile(on) => self.watch_pid_file(unit, *on),
            Output::ComputeElapse { after } => self.compute_elapse(unit, *after),
            Output::RealDeadline { .. } => self.set_alarm(unit),
            Output::ReadStamp => self.read_stamp(unit),
            Output::StampTimer => self.stamp_timer(unit),
            Output::Automount(true) => {
                let message = "Automount points are not made yet; mount it instead.";
                self.say(Severity::Error, Some(unit), message);
                let errno = Some(EOPNOTSUPP);
                self.tell(unit, Input::AutomountGone { errno });
            }
            Output::WatchBusName(on) => self.watch_bus_name(unit, *on),
            _ => {}
        }
    }

    /// A process of this unit ended; tables of the kernel are looked at before the unit is told.
    pub(crate) fn before_exit(&mut self, unit: UnitId) {
        self.look_at_table_of(unit);
    }

    /// When something of activation must happen, on the monotonic clock.
    pub(crate) fn next_activation_moment(&self) -> Option<Time> {
        // Counting costs a look at every unit, and units come with jobs.
        let unseen = self.activation.counted != Some(self.memory.sequence);
        let unseen = unseen.then_some(Time(0));
        let moments = [
            unseen,
            self.activation.connections.next_moment(),
            self.activation.tables.next_moment(),
            self.next_real_moment(),
        ];
        moments.into_iter().flatten().min()
    }

    /// Does what had to wait for a moment, or for the end of an action.
    pub(crate) fn activation_time_has_passed(&mut self) {
        self.connections_later();
        self.tell_elapsed();
        self.read_mounts_if_due();
        if self.activation.counted != Some(self.memory.sequence) {
            self.tell_new_units();
        }
    }

    /// Units that came since the last time are told what the kernel says about them.
    fn tell_new_units(&mut self) {
        self.activation.counted = Some(self.memory.sequence);
        let count = self.engine.units().count();
        if count == self.activation.told {
            return;
        }
        self.activation.told = count;
        let units: Vec<UnitId> = self.engine.units().map(|(unit, _)| unit).collect();
        for unit in units {
            self.tell_from_tables(unit);
            self.tell_from_devices(unit);
        }
    }

    /// Units that were just loaded are told what the kernel says about them, before anything is done with them: a mount
    /// that is there already must not be mounted, and nobody announces a device twice.
    pub(crate) fn tell_from_kernel(&mut self, names: &[Box<str>]) {
        for name in names {
            if let Some(unit) = self.engine.find(name) {
                self.tell_from_tables(unit);
                self.tell_from_devices(unit);
            }
        }
    }

    /// A descriptor of activation is ready.
    pub(crate) fn activation_ready(&mut self, ready: Ready) {
        match ready.token {
            Token::Listen(unit, index) => self.socket_ready(unit, index),
            Token::BusWatch => self.bus_ready(),
            Token::Paths => self.paths_ready(),
            Token::Mounts => self.mounts_ready(),
            Token::Swaps => self.read_swaps(),
            Token::Devices => self.devices_ready(),
            Token::ClockChange => self.clock_ready(),
            Token::Generator(_) => self.generators_ready(),
            _ => {}
        }
    }

    /// Brings what unit files may refer to (facts, mounts, generated units) up to date before they are read.
    pub(crate) fn refresh_host(&mut self) {
        self.activation.look_again();
        self.list_mounts();
        self.activation.conditions = None;
        self.run_generators_at_reload();
    }

    /// Sets up what is watched from the first moment on: mounts, swaps, devices, the clock.
    pub(crate) fn begin_activation(&mut self) {
        self.run_generators_at_boot();
        self.begin_watching();
    }

    fn begin_watching(&mut self) {
        self.begin_timers();
        self.begin_tables();
        self.begin_devices();
        self.tell_new_units();
    }

    /// Takes over what `muster-init` kept: listening sockets, connections, and what units asked to be told of.
    pub(crate) fn restore_activation(&mut self, kept: &mut Kept) {
        self.restore_sockets(kept);
        self.restore_connections(kept);
        self.restore_paths(kept);
        self.restore_bus_names();
        self.begin_watching();
    }
}
