//! File systems that never answer: whoever goes there waits, and nobody else.

use std::time::Duration;

use muster_lab::machine::MachineProcess;
use muster_lab::poll_until;

use crate::rig::{Rig, TIME};

/// Serves a file system without ever saying a word.
const DEAD: &str = r#"
open(my $device, "+<", "/dev/fuse") or die "no device: $!";
my $options = "fd=" . fileno($device) . ",rootmode=40000,user_id=0,group_id=0";
my ($source, $place, $kind) = ("dead", $ARGV[0], "fuse");
syscall(165, $source, $place, $kind, 0, $options) == 0 or die "no mount: $!";
sleep;
"#;

/// Boots a machine in which such a file system can be mounted: by `dead@PLACE.service`.
fn boot(units: &[(&str, String)]) -> Rig {
    let rig = Rig::boot(|mut builder| {
        for (name, text) in units {
            builder = builder.unit(*name, text);
        }
        builder.unit(
            "dead@.service",
            "[Service]\nType=exec\nExecStartPre=/bin/mkdir -p %f\nExecStart=/usr/bin/perl /etc/dead.pl %f\n",
        )
    });
    rig.write("/etc/dead.pl", DEAD).unwrap();
    let device = "test -e /dev/fuse || mknod /dev/fuse c 10 229";
    assert!(rig.run(["sh", "-c", device]).unwrap().status.success());
    rig
}

fn mount(rig: &Rig, instance: &str, place: &str) {
    rig.ok(&["start", &format!("dead@{instance}.service")]);
    let line = format!("grep -q ' {place} fuse ' /proc/self/mounts");
    poll_until(TIME, "it is mounted", || {
        rig.run(["sh", "-c", &line]).unwrap().status.success()
    });
}

/// The manager answers at once, and is the one that it was.
#[track_caller]
fn is_well(rig: &Rig, core: &MachineProcess) {
    let answer = ["sctl", "is-active", "basic.target"];
    let answer = rig.run_within(Duration::from_secs(4), answer).unwrap();
    assert!(answer.status.success(), "{}", answer.stderr);
    let now = rig.core().unwrap();
    assert_eq!(now.host_pid, core.host_pid, "it was not killed");
}

/// Each unit's start ends with its time, and the manager answers all the while.
fn each_times_out(rig: &Rig, core: &MachineProcess, units: &[(&str, String)]) {
    for (name, _) in units {
        rig.ok(&["start", "--no-block", name]);
        is_well(rig, core);
    }
    for (name, _) in units {
        poll_until(TIME, &format!("{name} times out"), || {
            rig.sctl(&["is-failed", name]).status.success()
        });
        assert_eq!(rig.property(name, "Result"), "timeout", "{name}");
    }
    is_well(rig, core);
}

#[test]
fn a_file_system_that_never_answers_keeps_nobody_but_who_goes_there() {
    muster_lab::require!(Root, Cgroup2);
    let unit = |lines: &str| format!("[Service]\nType=exec\nTimeoutStartSec=2\n{lines}\n");
    let units = [
        (
            "folder.service",
            unit("WorkingDirectory=/mnt/dead/x\nExecStart=/bin/true"),
        ),
        (
            "link.service",
            unit("WorkingDirectory=-/run/link/x\nExecStart=/bin/true"),
        ),
        (
            "output.service",
            unit("StandardOutput=append:/mnt/dead/x\nExecStart=/bin/true"),
        ),
        ("program.service", unit("ExecStart=/mnt/dead/x")),
    ];
    let rig = boot(&units);
    mount(&rig, "mnt-dead", "/mnt/dead");
    rig.run(["ln", "-s", "../mnt/dead", "/run/link"]).unwrap();
    let core = rig.core().unwrap();
    each_times_out(&rig, &core, &units);
}

/// What a process needs before it starts: its variables, its folders, its number, its program.
#[test]
fn what_a_process_needs_may_be_where_nobody_answers() {
    muster_lab::require!(Root, Cgroup2);
    let unit = |lines: &str| {
        format!("[Service]\nType=exec\nTimeoutStartSec=2\nExecStart=/bin/true\n{lines}\n")
    };
    let units = [
        ("variables.service", unit("EnvironmentFile=/mnt/dead/x")),
        ("some-variables.service", unit("EnvironmentFile=-/mnt/*/x")),
        ("folder.service", unit("StateDirectory=dead/x")),
        ("link.service", unit("CacheDirectory=near:dead/x")),
        (
            "lent.service",
            unit("DynamicUser=yes\nStateDirectory=private-dead"),
        ),
        (
            "program.service",
            unit("ExecStart=\nExecStart=true\nExecSearchPath=/mnt/dead:/bin"),
        ),
    ];
    let rig = boot(&units);
    for (instance, place) in [
        ("mnt-dead", "/mnt/dead"),
        ("var-lib-dead", "/var/lib/dead"),
        ("var-cache-dead", "/var/cache/dead"),
        (
            "var-lib-private-private\\x2ddead",
            "/var/lib/private/private-dead",
        ),
    ] {
        mount(&rig, instance, place);
    }
    let core = rig.core().unwrap();
    each_times_out(&rig, &core, &units);
}

#[test]
fn what_a_user_leaves_is_removed_by_somebody_who_has_the_time() {
    muster_lab::require!(Root, Cgroup2);
    let leaves =
        "[Service]\nUser=nobody\nRemoveIPC=yes\nExecStart=/bin/sleep infinity\nType=exec\n";
    let rig = boot(&[("leaves.service", leaves.to_owned())]);
    rig.ok(&["start", "leaves.service"]);
    mount(&rig, "dev-shm-dead", "/dev/shm/dead");
    let core = rig.core().unwrap();
    rig.ok(&["stop", "leaves.service"]);
    is_well(&rig, &core);
    // Somebody is at it.
    poll_until(TIME, "the remover waits", || {
        !rig.named("muster-exec").is_empty()
    });
    is_well(&rig, &core);
}
