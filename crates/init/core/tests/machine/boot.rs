//! Boot and shutdown: a hundred units in order, and in reverse order; a stop that hangs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_lab::machine::{Build, Ended};
use muster_lab::{muster, poll_until};

use crate::rig::{Rig, TIME};

const DEPTH: usize = 10;
const WIDTH: usize = 10;

/// Units in layers, each after all of the layer below; they note when they start and stop.
fn layered(note: &str) -> Vec<(String, String)> {
    let name = |level: usize, n: usize| format!("unit-{level}-{n}.service");
    let mut target = "[Unit]\nAllowIsolate=yes\n".to_owned();
    let mut units = Vec::new();
    for level in 0..DEPTH {
        for n in 0..WIDTH {
            let mut text = "[Unit]\n".to_owned();
            for below in (0..WIDTH).filter(|_| level > 0) {
                text.push_str(&format!("After={}\n", name(level - 1, below)));
            }
            text.push_str(&format!(
                "[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                 ExecStart=/bin/sh -c 'echo start %N >>{note}'\nExecStop=/bin/sh -c 'echo stop %N >>{note}'\n"
            ));
            target.push_str(&format!("Wants={}\n", name(level, n)));
            units.push((name(level, n), text));
        }
    }
    units.push(("hundred.target".to_owned(), target));
    units
}

/// Every unit started and stopped once, layer by layer, and back.
fn assert_in_order(notes: &str) {
    let mut at: BTreeMap<(&str, usize), Vec<usize>> = BTreeMap::new();
    for (line, note) in notes.lines().enumerate() {
        let (what, unit) = note.split_once(' ').unwrap();
        let level = unit.split('-').nth(1).unwrap().parse().unwrap();
        at.entry((what, level)).or_default().push(line);
    }
    for level in 0..DEPTH {
        assert_eq!(
            at[&("start", level)].len(),
            WIDTH,
            "starts of layer {level} in\n{notes}"
        );
        assert_eq!(
            at[&("stop", level)].len(),
            WIDTH,
            "stops of layer {level} in\n{notes}"
        );
    }
    for level in 1..DEPTH {
        let last = |what, level| at[&(what, level)].iter().max().unwrap();
        let first = |what, level| at[&(what, level)].iter().min().unwrap();
        assert!(
            last("start", level - 1) < first("start", level),
            "layer {level} started early:\n{notes}"
        );
        assert!(
            last("stop", level) < first("stop", level - 1),
            "layer {level} stopped late:\n{notes}"
        );
    }
}

#[test]
fn a_hundred_units_start_in_order_and_stop_in_reverse() {
    muster_lab::require!(Root, Cgroup2);
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::boot(|mut builder| {
        for (name, text) in layered("/lab/notes") {
            builder = builder.unit(name, text);
        }
        builder.bind(folder.path(), "/lab").unit(
            "default.target",
            "[Unit]\nRequires=hundred.target basic.target\nAfter=hundred.target basic.target\n",
        )
    });
    assert_eq!(rig.ok(&["is-system-running"]), "running\n");
    assert_eq!(rig.ok(&["is-active", "hundred.target"]), "active\n");
    rig.power_off();
    assert_eq!(rig.machine().wait_ended(TIME).unwrap(), Ended::PowerOff);
    assert_in_order(&fs::read_to_string(folder.path().join("notes")).unwrap());
}

#[test]
fn a_guest_with_its_own_kernel_boots_and_powers_off() {
    muster_lab::require!(Root, Tool("linux.uml"), File("/bin/busybox"));
    let programs = muster::programs(Build::Test, &[]).unwrap();
    let mut guest = muster::guest(&programs);
    for (name, text) in layered("/out/notes") {
        guest = guest.file(Path::new("/etc/systemd/system").join(name), text, 0o644);
    }
    let enough = "[Unit]\nRequires=hundred.target\nAfter=hundred.target basic.target\nWants=basic.target end.service\n";
    let end = "[Unit]\nAfter=hundred.target\n[Service]\nType=oneshot\n\
               ExecStart=/bin/sh -c 'sctl is-active hundred.target >/out/state; cat /proc/1/comm >/out/init; sctl poweroff --no-block'\n\
               Environment=PATH=/lab/muster:/bin:/usr/bin\n";
    let outcome = guest
        .file("/etc/systemd/system/default.target", enough, 0o644)
        .file("/etc/systemd/system/end.service", end, 0o644)
        .run(Duration::from_secs(90))
        .unwrap();
    let console = outcome.console.join("\n");
    let text = |name| {
        outcome
            .text(name)
            .unwrap_or_else(|| panic!("no {name}; console:\n{console}"))
    };
    assert_eq!(text("init"), "muster-init\n");
    assert_eq!(text("state"), "active\n");
    assert_in_order(&text("notes"));
}

#[test]
fn a_stop_that_hangs_is_named_and_killed_in_time() {
    muster_lab::require!(Root, Cgroup2, Tool("journalctl"));
    let stubborn = "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\nTimeoutStopSec=2\n";
    let journal = tempfile::tempdir().unwrap();
    let mut rig = Rig::boot(|builder| {
        builder
            .unit("stubborn.service", stubborn)
            .bind(journal.path(), "/run/log/journal")
    });
    rig.ok(&["start", "stubborn.service"]);
    let asked = Instant::now();
    rig.power_off();
    poll_until(TIME, "the job that everybody waits for is named", || {
        let jobs = rig.sctl(&["list-jobs"]).stdout;
        let mut lines = jobs.lines();
        lines.any(|line| line.contains("stubborn.service") && line.contains(" stop "))
    });
    assert_eq!(rig.machine().wait_ended(TIME).unwrap(), Ended::PowerOff);
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(10),
        "{took:?}"
    );

    let read = Command::new("journalctl")
        .arg("--directory")
        .arg(journal.path())
        .args(["--output", "json", "UNIT=stubborn.service"])
        .output()
        .unwrap();
    let entries = String::from_utf8_lossy(&read.stdout);
    assert!(
        entries.contains("It did not end in time; it is killed."),
        "{entries}"
    );
}
