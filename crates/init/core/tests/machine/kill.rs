//! `kill -9` at every fault point while everything is in use: the next core goes on where the last one was.

use std::time::Duration;

use muster_core::core::FAULT_POINTS;
use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};
use crate::scene::{self, Scene, Size};

/// Where the machine looks for the fault that is to come.
const FAULT_FILE: &str = "/run/fault";
/// Not the promise, which is measured on what ships on a quiet machine, but enough to notice a stumble.
const BACK_TIME: Duration = Duration::from_secs(5);

fn size() -> Size {
    let many = muster_lab::rounds(0, 1) == 1;
    match many {
        true => Size {
            daemons: 500,
            sockets: 50,
            timers: 20,
        },
        false => Size {
            daemons: 40,
            sockets: 5,
            timers: 3,
        },
    }
}

fn boot() -> Rig {
    Rig::boot(|builder| scene::build(builder, size()).env("MUSTER_FAULT_FILE", FAULT_FILE))
}

/// Whoever crashes often is started in safe mode; this leaves it, so that the next crash is again the first.
fn leave_safe_mode(rig: &Rig) {
    let core = rig.core().expect("a core runs");
    rig.ok(&["daemon-reexec"]);
    rig.wait_for_another_core(&core, "daemon-reexec");
}

#[test]
fn kill_at_every_fault_point_disturbs_nobody() {
    muster_lab::require!(Root, Cgroup2);
    let rig = boot();
    let scene = Scene::start(&rig, size());
    for point in FAULT_POINTS {
        let name = point.name();
        let core = rig.core().expect("a core runs");
        rig.replace(FAULT_FILE, name).unwrap();
        // Points of a beginning core are reached by one that follows.
        if ["core.begun", "core.replayed"].contains(&name) {
            rig.kill(&core, Signal::KILL);
        }
        let reached = rig.path(format!("{FAULT_FILE}.reached"));
        poll_until(TIME, &format!("{name} is reached"), || reached.exists());
        let took = rig.wait_for_another_core(&core, name);
        eprintln!("killed at {name}: back after {took:?}");
        assert!(took < BACK_TIME, "{name}: {took:?}");
        std::fs::remove_file(reached).unwrap();
        scene.assert_goes_on(&rig, name);
        leave_safe_mode(&rig);
    }
    scene.finish(&rig);
}

#[test]
fn kill_by_any_signal_at_any_moment_disturbs_nobody() {
    muster_lab::require!(Root, Cgroup2);
    let rig = boot();
    let scene = Scene::start(&rig, size());
    let signals = [Signal::KILL, Signal::SEGV, Signal::ABORT, Signal::KILL];
    let rounds = muster_lab::rounds(1, 20);
    for (round, signal) in (0..rounds).flat_map(|round| signals.map(|signal| (round, signal))) {
        let core = rig.core().expect("a core runs");
        let after = format!("{signal:?} in round {round}");
        // The first SIGSEGV that is no fault of the program only takes the handler of stack overflows away.
        poll_until(TIME, &format!("core is gone after {after}"), || {
            let runs = rig.core().is_some_and(|now| now.host_pid == core.host_pid);
            if runs {
                rig.kill(&core, signal);
            }
            !runs
        });
        rig.wait_for_another_core(&core, &after);
        scene.assert_goes_on_after_death(&rig, &after);
        leave_safe_mode(&rig);
    }
    scene.finish(&rig);
}

#[test]
fn kill_of_the_log_daemon_loses_no_line() {
    muster_lab::require!(Root, Cgroup2);
    let rig = boot();
    let scene = Scene::start(&rig, size());
    for round in 0..muster_lab::rounds(3, 50) {
        let logd = rig.only("muster-logd");
        rig.kill(&logd, Signal::KILL);
        poll_until(TIME, "another log daemon runs", || {
            rig.named("muster-logd")
                .iter()
                .any(|process| process.host_pid != logd.host_pid)
        });
        scene.assert_goes_on(&rig, &format!("the log daemon's death in round {round}"));
    }
    scene.finish(&rig);
}
