//! Muster as the init of a [machine](crate::machine): its programs, how it is started, when it is up.

use std::time::Duration;

use crate::machine::{Binaries, BinariesError, Build, Machine, MachineBuilder, MachineError};

/// What `sctl` speaks to.
pub const CONTROL_SOCKET: &str = "/run/muster/io.muster.Manager";
const INIT: &str = "/usr/lib/muster/muster-init";
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-sctl", "sctl"),
];
const DEFAULT_TARGET: &str =
    "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\nAllowIsolate=yes\n";

/// Builds the programs of a running Muster, with these features (`package/feature`).
pub fn programs(build: Build, features: &[&str]) -> Result<Binaries, BinariesError> {
    Binaries::build(build, PROGRAMS, features)
}

/// A machine with Muster as its init, which boots to `default.target` (`multi-user.target` unless the test adds one).
pub fn machine(programs: &Binaries) -> MachineBuilder {
    Machine::builder()
        .init([INIT])
        .binaries(programs)
        .unit("default.target", DEFAULT_TARGET)
}

/// A machine in which Muster supervises beside another init.
pub fn supervised_machine(programs: &Binaries) -> MachineBuilder {
    machine(programs).init([INIT, "--supervise"]).beside_an_init()
}

/// Boots it and waits until it has started everything.
pub fn boot(builder: &MachineBuilder, within: Duration) -> Result<Machine, MachineError> {
    let machine = builder.boot()?;
    machine.wait_for_path(CONTROL_SOCKET, within)?;
    machine.run_within(within, ["sctl", "is-system-running", "--wait"])?;
    Ok(machine)
}
