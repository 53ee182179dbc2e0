//! On machines whose kernel does not say when nobody is left in a group: one without control groups, and one that has them in
//! their first version alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_lab::machine::{Binaries, Build, Machine, MachineBuilder};
use muster_lab::{muster, poll_until};

use crate::host::{TIME, sctl};

/// Much less than a service is given to end.
const SOON: Duration = Duration::from_secs(40);
/// Where groups of the first version are that nothing but tracks.
const TRACKED: &str = "/sys/fs/cgroup/systemd";

const UNITS: &[(&str, &str)] = &[
    (
        "family.service",
        "[Service]\nExecStart=/bin/sh -c '/bin/sleep 7654321 & exec /bin/sleep 7654321'\n",
    ),
    // Its own process goes at once, the other when somebody else says so.
    (
        "slow.service",
        "[Service]\nExecStart=/bin/sh -c '/bin/sh /lab/slow & exec /bin/sleep 7654322'\n",
    ),
    (
        "stubborn.service",
        "[Service]\nTimeoutStopSec=1\n\
         ExecStart=/bin/sh -c '(trap \"\" TERM; while :; do /bin/sleep 7654323; done) & exec /bin/sleep 7654323'\n",
    ),
    (
        "forks.service",
        "[Service]\nType=forking\nExecStart=/bin/sh -c '/bin/sleep 7654324 & /bin/sleep 7654324 &'\n",
    ),
    (
        "whole.service",
        "[Service]\nExitType=cgroup\nExecStart=/bin/sh -c '/bin/sleep 7654325 &'\n",
    ),
    (
        "stays.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c '/bin/sleep 7654326 &'\n",
    ),
];
const SLOW: &str =
    "trap 'kill $!; exit 0' USR1\ntrap : TERM\nwhile :; do /bin/sleep 7654322 & wait; done\n";

fn furnish(builder: MachineBuilder) -> MachineBuilder {
    let units = UNITS.iter();
    units
        .fold(builder, |builder, (name, text)| builder.unit(*name, *text))
        .file("/lab/slow", SLOW, 0o644)
}

fn programs() -> Binaries {
    muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap()
}

/// A fresh group of the host's own tree, which goes when its machine is gone.
struct Group(PathBuf);

impl Group {
    fn new() -> Self {
        let path = Path::new(TRACKED).join(format!("muster-lab-silent-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has been killed, and is gone in a moment.
        let removed = muster_lab::try_poll_for(TIME, || remove(&self.0).ok());
        if removed.is_none() {
            eprintln!("{} is left", self.0.display());
        }
    }
}

fn remove(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn sleepers(machine: &Machine, number: &str) -> Vec<String> {
    let found = machine.run(["pgrep", "-f", number]).unwrap();
    found.stdout.lines().map(str::to_owned).collect()
}

#[track_caller]
fn becomes(machine: &Machine, unit: &str, state: &str) {
    poll_until(SOON, &format!("{unit} is {state}"), || {
        let shown = sctl(machine, &["show", "--value", "-p", "ActiveState", unit]);
        shown.trim_end() == state
    });
}

#[track_caller]
fn stops(machine: &Machine, unit: &str, number: &str) {
    let since = Instant::now();
    sctl(machine, &["stop", unit]);
    assert!(since.elapsed() < SOON, "{unit}: {:?}", since.elapsed());
    assert_eq!(sleepers(machine, number), [""; 0], "of {unit}");
}

/// What holds wherever emptiness has to be looked for.
#[track_caller]
fn everybody_is_found_and_waited_for(machine: &Machine) {
    sctl(machine, &["start", "family.service"]);
    poll_until(TIME, "both run", || {
        sleepers(machine, "sleep 7654321").len() == 2
    });
    stops(machine, "family.service", "sleep 7654321");

    sctl(machine, &["start", "stubborn.service"]);
    poll_until(TIME, "both run", || {
        sleepers(machine, "^/bin/sleep 7654323").len() == 2
    });
    stops(machine, "stubborn.service", "sleep 7654323");

    sctl(machine, &["start", "slow.service"]);
    poll_until(TIME, "both run", || {
        sleepers(machine, "^/bin/sleep 7654322").len() == 2
    });
    sctl(machine, &["stop", "--no-block", "slow.service"]);
    becomes(machine, "slow.service", "deactivating");
    poll_until(TIME, "its own process has ended", || {
        let main = ["show", "--value", "-p", "MainPID", "slow.service"];
        sctl(machine, &main).trim_end() == "0"
    });
    let told = machine.run(["pkill", "-USR1", "-f", "sh /lab/slow"]);
    assert!(told.unwrap().status.success());
    becomes(machine, "slow.service", "inactive");

    for (unit, number) in [("forks.service", "7654324"), ("whole.service", "7654325")] {
        sctl(machine, &["start", unit]);
        becomes(machine, unit, "active");
        let told = machine.run(["pkill", "-f", &format!("sleep {number}")]);
        assert!(told.unwrap().status.success());
        becomes(machine, unit, "inactive");
    }

    sctl(machine, &["start", "stays.service"]);
    assert_eq!(sleepers(machine, "sleep 7654326").len(), 1);
    stops(machine, "stays.service", "sleep 7654326");
}

#[test]
fn a_machine_without_control_groups_ends_whole_units() {
    muster_lab::require!(Root, Tool("pgrep"));
    let programs = programs();
    // What stands in their place keeps the init from mounting any.
    let init = "mount -t tmpfs lab /sys/fs/cgroup && exec /usr/lib/muster/muster-init";
    let builder = furnish(muster::machine(&programs).without_cgroups());
    let builder = builder.init(["/bin/sh", "-c", init]);
    let machine = muster::boot(&builder, TIME).unwrap();
    let groups = machine.run(["ls", "/sys/fs/cgroup"]).unwrap();
    assert_eq!(groups.stdout, "", "there are none");
    everybody_is_found_and_waited_for(&machine);
}

#[test]
fn a_machine_with_the_first_version_alone_ends_whole_units() {
    muster_lab::require!(Root, Tool("pgrep"));
    if !Path::new(TRACKED).join("cgroup.procs").exists() {
        println!("this host has no tree of the first version that tracks");
        return;
    }
    let (programs, group) = (programs(), Group::new());
    let enter = format!(
        "echo 0 >/lab/group/cgroup.procs && umount /lab/group && \
         exec unshare --cgroup /bin/sh -ec 'mount -t tmpfs lab /sys/fs/cgroup; mkdir {TRACKED}; \
         mount -t cgroup -o none,name=systemd cgroup {TRACKED}; exec /usr/lib/muster/muster-init'"
    );
    let builder = furnish(muster::machine(&programs).without_cgroups())
        .bind(&group.0, "/lab/group")
        .init(["/bin/sh", "-c", &enter]);
    let machine = muster::boot(&builder, TIME).unwrap();
    sctl(&machine, &["start", "family.service"]);
    let tracked = format!("{TRACKED}/system.slice/family.service/cgroup.procs");
    let members = machine.run(["cat", &tracked]).unwrap().stdout;
    assert!(members.lines().count() >= 1, "{members}");
    everybody_is_found_and_waited_for(&machine);
    drop(machine);
    drop(group);
}
