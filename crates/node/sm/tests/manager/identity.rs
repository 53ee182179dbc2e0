//! Nodes whose identity manager is away.

use std::collections::BTreeMap;

use muster_lab::poll_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Rig, TIME};

fn show(rig: &Rig, property: &str) -> String {
    let words = [
        "sctl",
        "show",
        "--value",
        "-p",
        property,
        "muster-sm.service",
    ];
    rig.run(words).expect("a property").stdout.trim().to_owned()
}

#[test]
fn instances_run_again_without_an_identity_manager_and_permissions_wait_for_it() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_with_certificates(2);
    rig.start_iam();
    rig.start_manager();
    rig.wait_for_node();
    // The second item asks for permissions.
    let set = BTreeMap::from([("item00".to_owned(), 0), ("item01".to_owned(), 1)]);
    rig.run_set(&set);
    let before = rig.pids();
    assert_eq!(before.len(), 2, "{before:?}");

    // Without it, another manager takes over what runs.
    rig.kill_iam();
    let manager = rig.manager().expect("a manager");
    let pid = Pid::from_raw(manager).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    rig.wait_for_another_manager(manager);
    poll_until(TIME, "the manager is ready", || {
        show(&rig, "ActiveState") == "active"
    });
    assert_eq!(rig.pids(), before);

    // Without it, what ran runs again after a boot, as far as nobody has to be asked.
    rig.lose_power();
    assert!(rig.pids().is_empty());
    rig.start_manager();
    let plain = rig.instance_id("item00");
    let runs = |rig: &Rig, id: &str| rig.pids().keys().any(|unit| unit.contains(id));
    poll_until(TIME, "the plain instance", || runs(&rig, &plain));
    assert_eq!(rig.pids().len(), 1, "{:?}", rig.pids());
    let first = rig.pids();

    // When it is back, the other one follows, and the controller is reached.
    rig.start_iam();
    let special = rig.instance_id("item01");
    poll_until(TIME, "the instance with permissions", || {
        runs(&rig, &special)
    });
    rig.run_set(&set);
    let all = rig.pids();
    assert_eq!(all.len(), 2, "{all:?}");
    for (unit, pid) in first {
        assert_eq!(all.get(&unit), Some(&pid), "it was touched");
    }
}

#[test]
fn a_node_that_was_never_known_starts_says_what_it_waits_for_and_goes_on() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_with_certificates(1);
    // Returns when the unit is active: nobody who waits for it waits for the identity manager.
    rig.start_manager();
    let status = show(&rig, "StatusText");
    assert!(
        status.contains("waiting for the identity manager"),
        "{status}"
    );
    rig.start_iam();
    rig.wait_for_node();
    rig.run_set(&BTreeMap::from([("item00".to_owned(), 0)]));
    assert_eq!(rig.pids().len(), 1);
    assert_eq!(show(&rig, "StatusText"), "");
    assert_eq!(show(&rig, "NRestarts"), "0");
}

#[test]
fn a_node_works_under_managers_whose_certificates_name_neither_hosts_nor_roles() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_with_plain_certificates(2);
    rig.start_iam();
    rig.start_manager();
    rig.wait_for_node();
    // The second item asks for permissions, which the protected port gives.
    let set = BTreeMap::from([("item00".to_owned(), 0), ("item01".to_owned(), 1)]);
    rig.run_set(&set);
    assert_eq!(rig.pids().len(), 2);
}

#[test]
fn an_identity_manager_that_refuses_to_take_permissions_back_keeps_nothing_from_ending() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_with_certificates(3);
    rig.start_iam();
    rig.start_manager();
    rig.wait_for_node();
    // The last version asks for permissions.
    let set = |items: &[(&str, usize)]| {
        let items = items.iter().map(|(item, it)| ((*item).to_owned(), *it));
        items.collect::<BTreeMap<String, usize>>()
    };
    rig.run_set(&set(&[("item00", 0), ("item01", 2), ("item02", 2)]));
    rig.forget_permissions();
    // One goes, one is replaced by what needs no permissions; and so is one that never had any.
    rig.run_set(&set(&[("item00", 1), ("item01", 1)]));
    assert_eq!(rig.pids().len(), 2);
    let said = rig.iam_said();
    for item in ["item01", "item02"] {
        assert!(said.contains(&format!("refused {item}")), "{said}");
    }
    rig.run_set(&BTreeMap::new());
    assert!(rig.pids().is_empty());
    let said = rig.iam_said();
    assert!(!said.contains("item00"), "nobody asked for it: {said}");
    assert_eq!(said.matches("refused").count(), 2, "{said}");
}

#[test]
fn permissions_of_what_is_gone_are_taken_back_by_the_next_manager() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_with_certificates(2);
    rig.start_iam();
    rig.start_manager();
    rig.wait_for_node();
    // The second item has permissions, and goes while nobody can take them back.
    let both = BTreeMap::from([("item00".to_owned(), 0), ("item01".to_owned(), 1)]);
    rig.run_set(&both);
    rig.kill_iam();
    rig.run_set(&BTreeMap::from([("item00".to_owned(), 0)]));
    assert_eq!(rig.pids().len(), 1);
    let manager = rig.manager().expect("a manager");
    let pid = Pid::from_raw(manager).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    rig.wait_for_another_manager(manager);
    rig.start_iam();
    rig.wait_until_unregistered("item01");
}
