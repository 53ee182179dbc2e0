//! What other machines' kernels may lack, under Muster in a guest whose kernel has it: a security module made of programs, and
//! every controller of cgroup v2 with all that it tells.
//!
//! The guest has no tools but busybox, so a unit goes through the cases one after the other, and says on the console how each
//! ended. Cases that need other tools are not among them.

use std::path::Path;
use std::time::Duration;

use muster_lab::guest::{Guest, RunningGuest};
use muster_lab::machine::{Binaries, Build};
use muster_lab::muster;

use crate::case::{self, Case, FOLDER};
use crate::{guest, world};

/// The guest translates every instruction.
const TIME: Duration = Duration::from_secs(120);
/// What this kernel has of control groups. A case that needs any of it and nothing else runs here, if nowhere else.
const GROUP_FACTS: &[&str] = &[
    "cpu-controller",
    "cpu-controller-v2",
    "cpuset-controller",
    "cpuset-controller-v2",
    "io-controller",
    "io-controller-v2",
    "io-limits",
    "memory-controller",
    "memory-controller-v2",
    "pids-controller",
    "pids-controller-v2",
    "pressure",
];
/// The cases of control groups that busybox is enough for.
const GROUP_CASES: &[&str] = &[
    "group-of-the-unit",
    "slice",
    "cpu-weight",
    "cpu-quota",
    "cpu-quota-in-a-period",
    "allowed-cpus",
    "allowed-memory-nodes",
    "memory-max",
    "memory-high",
    "memory-low-and-min",
    "memory-max-in-percent",
    "memory-pressure-watch",
    "memory-pressure-threshold",
    "memory-pressure-is-not-watched",
    "memory-pressure-is-for-a-user-to-watch",
    "tasks-max",
    "tasks-max-of-a-slice",
    "io-bandwidth",
    "io-limits-of-every-kind",
    "io-bandwidth-is-kept",
    "io-device-weight-is-named-where-it-cannot-be-had",
    "io-latency-is-named-where-it-cannot-be-had",
    "startup-processors-hold-until-the-machine-has-started",
];
/// Cases of a disk whose scheduler knows weights.
const SCHEDULER_CASES: &[&str] = &[
    "io-weights-of-another-scheduler",
    "startup-weights-of-disks-hold-until-the-machine-has-started",
];
/// Cases of machines whose memory has places, if only one.
const NUMA_CASES: &[&str] = &["numa-policy", "numa-policy-by-default"];
/// Cases of what only version 1 of control groups does, which the host has if anybody has.
const LEGACY_CASES: &[&str] = &["memory-high-is-named-where-it-cannot-be-had", "io-weight"];
/// Every case, and what two of them have seen.
const DRIVE: &str = r#"
export ctl=/usr/lib/muster/sctl
mkdir -p /out/seen
for fact in $(sh /lab/directives/facts 2>/dev/null); do echo "fact: $fact."; done
echo "end of facts"
"$ctl" start keep.target
while read -r name others; do
    export unit=check-$name.service
    if ! "$ctl" start "$unit" </dev/null; then echo "case: $name: it did not start"; "$ctl" status "$unit"
    elif [ ! -e /lab/directives/outside/$name ]; then echo "case: $name: good"
    elif sh -eu /lab/directives/outside/$name </dev/null; then echo "case: $name: good"
    else echo "case: $name: not as it should be"; fi
    [ ! -e /out/seen/$name ] || cat /out/seen/$name
done </lab/directives/list
if [ -e /run/file-systems-denied ]; then echo "seen: $(cat /run/file-systems-denied) $(cat /run/file-systems-allowed)"; fi
echo "end of cases"
"$ctl" poweroff --no-block
"#;
const DRIVER: &str = "[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
Environment=PATH=/usr/lib/muster:/bin
ExecStart=/bin/sh /lab/directives/drive
";

#[test]
fn file_systems_are_restricted_where_the_kernel_has_its_part() {
    muster_lab::require!(Root, Tool("qemu-system-x86_64"), File("/bin/busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    let mut cases = case::read("restrictions");
    cases.retain(|case| case.name.starts_with("file-systems-"));
    assert!(cases.len() >= 5);
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let mut running = furnished(&cases, &programs).boot().unwrap();
    all_are_good(&mut running, &cases);
    let seen = running.wait_for_line("seen: ", TIME).unwrap();
    assert_eq!(seen, "seen: closed closed");
    running.wait_for_line("end of cases", TIME).unwrap();
}

#[test]
fn control_groups_hold_where_the_kernel_has_every_controller() {
    muster_lab::require!(Root, Tool("qemu-system-x86_64"), File("/bin/busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    cases_hold("groups", GROUP_CASES, GROUP_FACTS, |guest| guest);
}

#[test]
fn memory_comes_from_where_it_is_to_come_from() {
    muster_lab::require!(Root, Tool("qemu-system-x86_64"), File("/bin/busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    cases_hold("process", NUMA_CASES, &["numa"], |guest| guest);
}

#[test]
fn weights_of_disks_are_given_to_the_scheduler_that_a_disk_has() {
    muster_lab::require!(Root, Tool("qemu-system-x86_64"), File("/bin/busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    let unit = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                ExecStart=/bin/sh -c 'echo bfq >/sys/block/vda/queue/scheduler'\n";
    cases_hold("groups", SCHEDULER_CASES, &["io-bfq-weight"], |guest| {
        let folder = Path::new("/etc/systemd/system");
        guest
            .module("bfq")
            .file(folder.join("scheduler.service"), unit, 0o644)
            .file(
                folder.join("driver.service.d/scheduler.conf"),
                "[Unit]\nRequires=scheduler.service\nAfter=scheduler.service\n",
                0o644,
            )
    });
}

/// Runs these cases in a guest that must have these facts.
#[track_caller]
fn cases_hold(topic: &str, names: &[&str], facts: &[&str], furnish: impl FnOnce(Guest) -> Guest) {
    let mut cases = case::read(topic);
    cases.retain(|case| names.contains(&&*case.name));
    assert_eq!(cases.len(), names.len(), "a case is not there any more");
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let disk = guest::disk();
    let guest = furnished(&cases, &programs)
        .kernel_arg("psi=1")
        .disk(disk.path())
        .host_file(
            env!("CARGO_BIN_EXE_muster-probe"),
            Path::new(FOLDER).join("muster-probe"),
        );
    let mut running = furnish(guest).boot().unwrap();
    running.wait_for_line("end of facts", TIME).unwrap();
    let console = running.console();
    for fact in facts {
        let line = format!("fact: {fact}.");
        assert!(console.iter().any(|it| it.contains(&line)), "no {fact}");
    }
    all_are_good(&mut running, &cases);
    running.wait_for_line("end of cases", TIME).unwrap();
}

/// Whether a case is among those that run here, or needs what only version 1 does.
pub(crate) fn runs(case: &str) -> bool {
    let mut known = [GROUP_CASES, SCHEDULER_CASES, NUMA_CASES, LEGACY_CASES].into_iter();
    known.any(|cases| cases.contains(&case))
}

#[track_caller]
fn all_are_good(running: &mut RunningGuest, cases: &[Case]) {
    for case in cases {
        let line = running
            .wait_for_line(&format!("case: {}:", case.name), TIME)
            .unwrap();
        assert!(
            line.ends_with(": good"),
            "{line}\n{}",
            running.console().join("\n")
        );
    }
}

fn furnished(cases: &[Case], programs: &Binaries) -> Guest {
    let unit = |name: &str| Path::new("/etc/systemd/system").join(name);
    let folder = Path::new(FOLDER);
    let mut guest = muster::qemu_guest(programs)
        .file(folder.join("drive"), DRIVE, 0o644)
        .file(unit("driver.service"), DRIVER, 0o644)
        .file(
            unit("default.target"),
            "[Unit]\nWants=driver.service\n",
            0o644,
        );
    for (path, content, mode) in world::files(cases) {
        guest = guest.file(path, content, mode);
    }
    guest
}
