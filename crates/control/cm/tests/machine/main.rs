//! A whole node: core, the Communication Manager and the Service Manager as its units, and containers by runc.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod rig;

use std::collections::BTreeMap;

use muster_lab::poll_until;

use crate::rig::{Rig, TIME};

#[test]
fn what_is_applied_runs_in_containers_and_managers_that_are_killed_touch_nothing() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.apply(&[("web", 0), ("worker", 0)]);
    let first = rig.wait_for_pids(2);
    assert_eq!(
        rig.states(),
        BTreeMap::from([
            ("web".into(), "active".into()),
            ("worker".into(), "active".into())
        ])
    );

    for program in ["muster-cm", "muster-sm"] {
        let old = rig.kill(program);
        poll_until(TIME, program, || {
            rig.process(program).is_some_and(|new| new != old)
        });
        rig.wait_for_states(&[("web", "active"), ("worker", "active")]);
        assert_eq!(rig.pids(), first, "{program} was killed");
    }

    // Another version of one: the other keeps its process.
    rig.apply(&[("web", 0), ("worker", 1)]);
    let is_replaced = || {
        let now = rig.pids();
        now.len() == 2 && now["worker"] != first["worker"]
    };
    poll_until(TIME, "another worker", is_replaced);
    rig.wait_for_states(&[("web", "active"), ("worker", "active")]);
    assert_eq!(rig.pids()["web"], first["web"]);

    rig.apply(&[]);
    poll_until(TIME, "nothing runs", || rig.pids().is_empty());
}
