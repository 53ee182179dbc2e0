//! Service Managers and cores that die; instances do not.

use muster_bundle::FAULT_POINTS;
use muster_lab::muster;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Rig, TIME};

#[test]
fn instances_are_adopted_by_the_next_service_manager_and_strangers_are_not() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    for name in ["a", "b", "stranger"] {
        // Every command is a Service Manager of its own, which then ends.
        rig.ok(&["start", name, "7", "exec sleep 1000"]);
    }
    let before = rig.first_processes();
    assert_eq!(before.len(), 3);
    let adopted = rig.ok(&["adopt", "a", "b", "never"]);
    let mut lines: Vec<&str> = adopted.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["adopted a 7 Running", "adopted b 7 Running"]);
    let after = rig.first_processes();
    assert_eq!(after.len(), 2);
    assert!(
        after.iter().all(|one| before.contains(one)),
        "{before:?} {after:?}"
    );
    assert_eq!(rig.leftovers(&["a", "b"]), "");
    let mut watch = rig.watch(&["a", "b"]);
    rig.ok(&["stop", "a", "0"]);
    watch
        .wait_for_line("event a 7 Ended", TIME)
        .expect("it is told about what was adopted");
    rig.ok(&["stop", "b", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn another_runtime_of_the_same_kind_leaves_instances_alone() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.ok(&["start", "a", "1", "exec sleep 1000"]);
    let before = rig.first_processes();
    assert_eq!(before.len(), 1);
    assert_eq!(rig.ok_in("/run/muster/other", &["adopt"]), "");
    assert_eq!(rig.first_processes(), before);
    assert_eq!(rig.ok(&["adopt", "a"]), "adopted a 1 Running\n");
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn instances_go_on_when_core_dies() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.ok(&["start", "a", "1", "exec sleep 1000"]);
    let before = rig.first_processes();
    let core = muster::manager(&rig).unwrap().expect("a manager");
    kill_process(Pid::from_raw(core.host_pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(rig.ok(&["adopt", "a"]), "adopted a 1 Running\n");
    assert_eq!(rig.first_processes(), before);
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn a_service_manager_killed_anywhere_leaves_what_the_next_one_can_use() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.ok(&["start", "bystander", "1", "exec sleep 1000"]);
    let bystander = rig.first_processes();
    for point in FAULT_POINTS {
        let name = point.name();
        let reached = rig.armed(name, &["start-stop", "a", "bystander"]);
        assert!(reached, "{name} was never reached");
        // Once as wanted: it runs, or is started.
        let adopted = rig.ok(&["adopt", "a", "bystander"]);
        assert!(
            adopted.contains("adopted bystander 1 Running"),
            "{name}: {adopted}"
        );
        if !adopted.contains("adopted a 1 Running") {
            rig.ok(&["start", "a", "2", "exec sleep 1000"]);
        }
        assert_eq!(rig.first_processes().len(), 2, "{name}");
        assert_eq!(rig.leftovers(&["a", "bystander"]), "", "{name}");
        // Once as unwanted: nothing is left of it.
        rig.ok(&["stop", "a", "0"]);
        rig.armed(name, &["start-stop", "a", "bystander"]);
        let adopted = rig.ok(&["adopt", "bystander"]);
        assert_eq!(adopted, "adopted bystander 1 Running\n", "{name}");
        assert_eq!(rig.leftovers(&["bystander"]), "", "{name}");
        assert_eq!(
            rig.first_processes(),
            bystander,
            "{name}: a healthy instance is never restarted"
        );
    }
    rig.ok(&["stop", "bystander", "0"]);
    rig.assert_nothing_left();
}
