//! The same on a machine whose init is systemd.

use crate::rig::{Rig, TIME};

#[test]
fn systemd_runs_instances_too() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        Tool("dbus-daemon"),
        File("/lib/systemd/systemd"),
        File("/bin/busybox")
    );
    let rig = Rig::boot_systemd();
    rig.ok(&["start", "a", "5", "exec sleep 1000"]);
    assert_eq!(rig.ok(&["adopt", "a"]), "adopted a 5 Running\n");
    let mut watch = rig.watch(&["a", "bad"]);
    rig.ok(&["start", "bad", "1", "sleep 0.3; exit 9"]);
    watch
        .wait_for_line("event bad 1 Ended(Exited(9))", TIME)
        .expect("it is told");
    rig.ok(&["stop", "bad", "0"]);
    rig.ok(&["stop", "a", "0"]);
    watch
        .wait_for_line("event a 5 Ended", TIME)
        .expect("it is told");
    rig.assert_nothing_left();
}
