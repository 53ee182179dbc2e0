//! systemd as a peer: the host's own, as process 1 of a [machine](crate::machine).
//!
//! What Muster is compared with runs under the same conditions as Muster: the same root, unit folders, control group tree
//! and devices, on the same kernel at the same time of day. Its journal daemon runs, as Muster's log daemon does.

use std::time::Duration;

use crate::machine::{Machine, MachineBuilder, MachineError};

/// The manager, where distributions put it.
pub const SYSTEMD: &str = "/lib/systemd/systemd";
/// What `systemctl` speaks to as root, without a message bus.
const CONTROL_SOCKET: &str = "/run/systemd/private";

/// The synchronisation points of boot and shutdown, what ends a machine, and the journal.
const UNITS: &[&str] = &[
    "basic.target",
    "exit.target",
    "final.target",
    "getty.target",
    "graphical.target",
    "halt.target",
    "local-fs-pre.target",
    "local-fs.target",
    "multi-user.target",
    "network-online.target",
    "network-pre.target",
    "network.target",
    "nss-lookup.target",
    "nss-user-lookup.target",
    "paths.target",
    "poweroff.target",
    "reboot.target",
    "remote-fs-pre.target",
    "remote-fs.target",
    "rescue.target",
    "shutdown.target",
    "slices.target",
    "sockets.target",
    "swap.target",
    "sysinit.target",
    "syslog.socket",
    "systemd-exit.service",
    "systemd-halt.service",
    "systemd-journald-dev-log.socket",
    "systemd-journald.service",
    "systemd-journald.socket",
    "systemd-poweroff.service",
    "systemd-reboot.service",
    "time-set.target",
    "time-sync.target",
    "timers.target",
    "umount.target",
    "user.slice",
];

/// A machine with systemd as its init, which boots to `default.target` (`multi-user.target` unless the test adds one).
pub fn systemd() -> MachineBuilder {
    let builder = Machine::builder().init([SYSTEMD, "--system", "--log-target=null"]);
    UNITS
        .iter()
        .fold(builder, MachineBuilder::vendor_unit)
        .file("/etc/systemd/journald.conf", JOURNALD_CONFIG, 0o644)
        // Without this link the manager would start the host's graphical target.
        .unit("default.target", DEFAULT_TARGET)
}

/// In memory, as Muster's logs are in a machine whose `/var/log` is; nothing from the host's kernel.
const JOURNALD_CONFIG: &str = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n";
const DEFAULT_TARGET: &str =
    "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\nAllowIsolate=yes\n";

/// Boots it and waits until it has started everything.
pub fn boot_systemd(builder: &MachineBuilder, within: Duration) -> Result<Machine, MachineError> {
    let machine = builder.boot()?;
    machine.wait_for_path(CONTROL_SOCKET, within)?;
    machine.run_within(within, ["systemctl", "is-system-running", "--wait"])?;
    Ok(machine)
}
