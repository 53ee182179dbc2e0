//! Sets of instances: only what changes is touched.

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Pids, Rig};

fn set(items: impl IntoIterator<Item = (usize, usize)>) -> BTreeMap<String, usize> {
    items
        .into_iter()
        .map(|(number, version)| (format!("item{number:02}"), version))
        .collect()
}

/// How many processes of `before` are still there.
fn kept(before: &Pids, after: &Pids) -> usize {
    let kept = before
        .iter()
        .filter(|(group, pid)| after.get(*group) == Some(pid));
    kept.count()
}

#[test]
fn only_what_changes_is_touched_and_a_killed_manager_touches_nothing() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot();
    rig.run_set(&set((0..50).map(|number| (number, 0))));
    let all = rig.pids();
    assert_eq!(all.len(), 50);

    // Five change, ten go.
    let fewer = set((0..40).map(|number| (number, usize::from(number < 5))));
    rig.run_set(&fewer);
    let after = rig.pids();
    assert_eq!(after.len(), 40);
    assert_eq!(kept(&all, &after), 35);

    // The manager is killed: nobody else notices.
    let manager = rig.manager().expect("a manager");
    let pid = Pid::from_raw(manager).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    rig.wait_for_another_manager(manager);
    rig.run_set(&fewer);
    assert_eq!(rig.pids(), after);

    // Everything goes, and nothing stays.
    rig.run_set(&BTreeMap::new());
    assert!(rig.pids().is_empty());
    let left = rig.run(["sh", "-c", "cat /proc/self/mounts; ls /run/muster/sm/runc"]);
    let left = left.expect("a command").stdout;
    assert!(!left.contains("/run/muster/sm/"), "{left}");
}
