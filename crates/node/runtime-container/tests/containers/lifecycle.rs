//! Starting, ending, and what is told about it.

use crate::rig::{Rig, TIME};

#[test]
fn an_instance_starts_runs_and_leaves_nothing() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    let storage = rig.storage();
    let mut watch = rig.watch(&["a"]);
    let script = "echo up >/storage/line; while :; do sleep 1000 & wait; done";
    rig.ok(&["start", "a", "1", script, storage]);
    assert_eq!(rig.line("/run/storage/line"), "up");
    watch
        .wait_for_line("event a 1 Running", TIME)
        .expect("it is told");
    let units = rig
        .run(["sctl", "list-units", "--no-legend", "muster-container-*"])
        .unwrap()
        .stdout;
    assert_eq!(units.lines().count(), 1, "{units}");
    let unit = units.split_whitespace().next().unwrap();
    let place = rig.ok(&["place", "a", "1"]);
    let words: Vec<&str> = place.split_whitespace().collect();
    let ["place", named, group, own, written] = words[..] else {
        panic!("{place}");
    };
    assert_eq!(named, unit);
    assert!(group.ends_with(unit), "{place}");
    assert_eq!(own, format!("{group}/container"));
    assert!(rig.path(written).is_dir(), "{place}");
    let inside = rig.run(["cat", &format!("/sys/fs/cgroup/pids{own}/cgroup.procs")]);
    assert!(!inside.unwrap().stdout.is_empty(), "nobody is in {own}");
    assert_eq!(rig.ok(&["place", "a", "2"]), "nowhere\n");
    // The same start again is the same start.
    rig.ok(&["again", "a", "1", script]);
    rig.ok(&["stop", "a", "200"]);
    watch
        .wait_for_line("event a 1 Ended", TIME)
        .expect("it is told");
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
    let processes = rig.processes().unwrap();
    assert!(
        !processes
            .iter()
            .any(|one| one.name == "sleep" || one.name == "runc"),
        "{processes:?}"
    );
}

#[test]
fn an_instance_is_asked_before_it_is_killed() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    let storage = rig.storage();
    let script = "trap 'echo asked >/storage/asked; exit 0' TERM; echo up >/storage/up; while :; do sleep 0.05; done";
    rig.ok(&["start", "polite", "1", script, storage]);
    rig.line("/run/storage/up");
    rig.ok(&["stop", "polite", "60000"]);
    assert_eq!(rig.line("/run/storage/asked"), "asked");
    rig.assert_nothing_left();
}

#[test]
fn ends_are_told_as_they_were() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    let mut watch = rig.watch(&["good", "bad", "killed", "hungry"]);
    rig.ok(&["start", "good", "1", "sleep 0.3; exit 0"]);
    watch
        .wait_for_line("event good 1 Ended(Exited(0))", TIME)
        .expect("it is told");
    rig.ok(&["start", "bad", "4", "sleep 0.3; exit 7"]);
    watch
        .wait_for_line(
            "event bad 4 Restarting { last: Exited(7), restarts: 1 }",
            TIME,
        )
        .expect("it is told");
    watch
        .wait_for_line("event bad 4 Ended(Exited(7))", TIME)
        .expect("it is told");
    rig.ok(&[
        "start",
        "killed",
        "2",
        "sleep 0.3; exec sleep 1000",
        r#"{"burst": 1}"#,
    ]);
    watch
        .wait_for_line("event killed 2 Running", TIME)
        .expect("it is told");
    let units = rig
        .run(["sctl", "kill", "--signal=KILL", "muster-container-*"])
        .unwrap();
    assert!(units.status.success(), "{}", units.stderr);
    watch
        .wait_for_line("event killed 2 Ended(Signalled(9))", TIME)
        .expect("it is told");
    let hungry = r#"{"ram": 16000000, "burst": 1, "tmp": 1000000000}"#;
    rig.ok(&[
        "start",
        "hungry",
        "3",
        "sleep 0.3; exec dd if=/dev/zero of=/dev/null bs=100M",
        hungry,
    ]);
    watch
        .wait_for_line("event hungry 3 Ended(OutOfMemory)", TIME)
        .expect("it is told");
    // Somebody who comes later learns the same.
    let adopted = rig.ok(&["adopt", "good", "bad", "hungry"]);
    for told in [
        "adopted good 1 Ended(Exited(0))",
        "adopted bad 4 Ended(Exited(7))",
        "adopted hungry 3 Ended(OutOfMemory)",
    ] {
        assert!(adopted.contains(told), "{adopted}");
    }
    for name in ["good", "bad", "hungry"] {
        rig.ok(&["stop", name, "0"]);
    }
    rig.assert_nothing_left();
}

#[test]
fn a_start_that_fails_says_why() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    let output = rig.driver(&["start", "odd", "1", "true", r#"{"layers": ["/nowhere"]}"#]);
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("cannot prepare instance odd:test:0"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("/nowhere"), "{}", output.stderr);
    rig.assert_nothing_left();
    // A layer without the program: the OCI runtime is asked why.
    rig.run(["mkdir", "-p", "/run/empty"]).unwrap();
    let output = rig.driver(&["start", "odd", "2", "true", r#"{"layers": ["/run/empty"]}"#]);
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("/bin/sh") && output.stderr.contains("no such file"),
        "{}",
        output.stderr
    );
    rig.ok(&["stop", "odd", "0"]);
    rig.assert_nothing_left();
}
