//! Muster as the init of a [machine](crate::machine): its programs, how it is started, when it is up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest::Guest;
use crate::machine::{
    Binaries, BinariesError, Build, Machine, MachineBuilder, MachineError, MachineProcess,
};

/// What `sctl` speaks to.
pub const CONTROL_SOCKET: &str = "/run/muster/io.muster.Manager";
const INIT: &str = "/usr/lib/muster/muster-init";
/// What a running Muster consists of, as `(package, program)`.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
];
/// Where a guest, whose `/usr` is the host's, has Muster's programs.
pub const GUEST_PROGRAMS: &str = "/lab/muster";
const GUEST_UNITS: &str = "/lab/units";
const GUEST_INIT: &str = "/lab/start-muster";
/// What an initramfs would do, and then Muster is process 1. Everything else that is to be mounted, it mounts itself.
const GUEST_SCRIPT: &str = r#"#!/lab/bin/busybox sh
set -e
/lab/bin/busybox mount -t hostfs -o ro,/usr none /usr
/lab/bin/busybox mount -t tmpfs lab /usr/lib/systemd/system-generators
/lab/bin/busybox mount -o bind /lab/units /usr/lib/systemd/system
exec /lab/muster/muster-init --log-target stderr
"#;
/// What the programs need where there is nothing of the host's.
const LIBRARIES: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/lib/x86_64-linux-gnu/libm.so.6",
];
/// What the kernel unpacks is no mount that could be left behind, so everything moves to one. busybox takes no root for one that
/// may be left unless it has a file `/init`.
const QEMU_SCRIPT: &str = r#"#!/lab/bin/busybox sh
set -e
PATH=/lab/bin
/lab/bin/busybox --install -s /lab/bin
/lab/bin/busybox --install -s /bin
while read -r module; do insmod "/lab/modules/$module"; done </lab/load
mkdir /new
mount -t tmpfs -o mode=755 new /new
for entry in bin boot etc home lab lib lib64 opt root srv usr var; do
    [ ! -e /$entry ] || cp -a /$entry /new/
done
cd /new
mkdir -p proc sys dev run tmp var out mnt
mount -t sysfs sys sys
mount -t securityfs securityfs sys/kernel/security
: >/init
exec switch_root . /usr/lib/muster/muster-init --log-target stderr
"#;

/// Builds the programs of a running Muster, with these features (`package/feature`).
pub fn programs(build: Build, features: &[&str]) -> Result<Binaries, BinariesError> {
    Binaries::build(build, PROGRAMS, features)
}

/// The unit files that Muster installs.
fn units() -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../units");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// A machine with Muster as its init and the unit files that Muster installs, which boots to `default.target`.
///
/// # Panics
/// When the workspace has no folder of unit files.
pub fn machine(programs: &Binaries) -> MachineBuilder {
    let builder = Machine::builder()
        .init([INIT])
        .binaries(programs)
        // As a package installs it: where everybody finds it.
        .bind(programs.path("sctl"), "/usr/bin/sctl");
    let units = units().expect("the workspace's unit files");
    units.iter().fold(builder, MachineBuilder::vendor_file)
}

/// A machine in which Muster supervises beside another init.
pub fn supervised_machine(programs: &Binaries) -> MachineBuilder {
    machine(programs)
        .init([INIT, "--supervise"])
        .beside_an_init()
}

/// Boots it and waits until it has started everything.
pub fn boot(builder: &MachineBuilder, within: Duration) -> Result<Machine, MachineError> {
    let machine = builder.boot()?;
    machine.wait_for_path(CONTROL_SOCKET, within)?;
    machine.run_within(within, ["sctl", "is-system-running", "--wait"])?;
    Ok(machine)
}

/// The manager that runs in a machine, if one does. A process that it is making still has its name, but is in the group of its
/// unit already.
pub fn manager(machine: &Machine) -> Result<Option<MachineProcess>, MachineError> {
    let mut managers = machine.processes()?;
    managers.retain(|process| {
        process.name == "muster-core" && !process.zombie && !process.cgroup.contains(".slice")
    });
    Ok(managers.pop())
}

/// A guest with a kernel of its own that boots into Muster, with the host's `/usr` read-only and, in `/usr/lib/muster`,
/// these programs. What it leaves in `/out` comes back.
///
/// # Panics
/// When the workspace has no folder of unit files.
pub fn guest(programs: &Binaries) -> Guest {
    let mut guest = Guest::uml()
        .init(GUEST_INIT)
        .file(GUEST_INIT, GUEST_SCRIPT, 0o755)
        .file(
            "/etc/machine-id",
            "0123456789abcdef0123456789abcdef\n",
            0o444,
        )
        .link("/usr/lib", "/lib")
        .link("/usr/lib64", "/lib64")
        .link("/usr/sbin", "/sbin");
    for folder in ["/usr", "/sys/fs/cgroup", "/var/log", "/var/lib"] {
        guest = guest.file(Path::new(folder).join(".lab"), "", 0o644);
    }
    for tool in ["cat", "sleep", "true"] {
        guest = guest.link(
            Path::new("/usr/bin").join(tool),
            Path::new("/bin").join(tool),
        );
    }
    for (_, program) in PROGRAMS {
        let inside = Path::new(GUEST_PROGRAMS).join(program);
        guest = guest.host_file(programs.path(program), inside);
    }
    for unit in units().expect("the workspace's unit files") {
        let inside = Path::new(GUEST_UNITS).join(unit.file_name().unwrap_or_default());
        guest = guest.host_file(unit, inside);
    }
    guest
}

/// A guest under QEMU, with a distribution's kernel and its BPF LSM, that boots into Muster with these programs in
/// `/usr/lib/muster`. It has no other tools than busybox's. Every instruction is translated, so it takes its time.
///
/// # Panics
/// When the workspace has no folder of unit files.
pub fn qemu_guest(programs: &Binaries) -> Guest {
    let mut guest = Guest::qemu()
        .memory_mib(2048)
        .kernel_arg("lsm=landlock,lockdown,yama,bpf")
        .init(GUEST_INIT)
        .file(GUEST_INIT, QEMU_SCRIPT, 0o755);
    for library in LIBRARIES {
        guest = guest.host_file(library, library);
    }
    for (_, program) in PROGRAMS {
        let inside = Path::new("/usr/lib/muster").join(program);
        guest = guest.host_file(programs.path(program), inside);
    }
    for unit in units().expect("the workspace's unit files") {
        let name = unit.file_name().unwrap_or_default();
        let inside = Path::new("/usr/lib/systemd/system").join(name);
        guest = guest.host_file(unit, inside);
    }
    guest
}
