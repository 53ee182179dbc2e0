//! Units on systemd. The system bus has one place, so the tests go into its machine.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use muster_lab::peer;
use muster_unit_runner::{InitSystem, UnitRunner as _, UnitState, detect};

use crate::contract::{self, TIME, block_on, shell, until};

/// Where the machine has this program.
const INSIDE: &str = "/usr/lib/muster/units-test";

/// Runs a test of this file in a machine.
#[track_caller]
fn run_inside(test: &str) {
    let program = std::env::current_exe().expect("the running test");
    let wants =
        "[Unit]\nRequires=multi-user.target dbus.service\nAfter=multi-user.target dbus.service\n";
    let builder = peer::systemd()
        .vendor_unit("dbus.service")
        .vendor_unit("dbus.socket")
        .unit("default.target", wants)
        .bind(program, INSIDE);
    let machine = peer::boot_systemd(&builder, TIME).expect("it boots");
    let words = [INSIDE, "--exact", test, "--ignored", "--nocapture"];
    let output = machine.run_within(TIME * 2, words).expect("it ends");
    let (stdout, stderr) = (output.stdout, output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}{stderr}");
}

#[test]
fn systemd_keeps_the_contract() {
    muster_lab::require!(
        Root,
        Cgroup2,
        File("/lib/systemd/systemd"),
        Tool("dbus-daemon")
    );
    run_inside("systemd::contract_inside");
}

#[test]
#[ignore = "run by systemd_keeps_the_contract, in a machine"]
fn contract_inside() {
    let init = detect(&InitSystem::Detect).expect("an init system");
    let runner = init.runner();
    assert_eq!(runner.name(), "systemd");
    block_on(contract::holds(runner, Path::new("/")));
}

#[test]
fn units_and_their_story_go_on_when_systemd_is_replaced() {
    muster_lab::require!(
        Root,
        Cgroup2,
        File("/lib/systemd/systemd"),
        Tool("dbus-daemon")
    );
    run_inside("systemd::replacement_inside");
}

#[test]
#[ignore = "run by units_and_their_story_go_on_when_systemd_is_replaced, in a machine"]
fn replacement_inside() {
    let runner = Arc::new(muster_unit_runner::SystemdRunner::new());
    block_on(async {
        let mut events = runner.watch("case".into());
        let unit = shell("stays", "exec sleep 1000");
        runner.start(unit.clone()).await.expect("it starts");
        until(&mut events, &unit.name, |state| {
            *state == UnitState::Running
        })
        .await;
        let before = runner.list("case".into()).await.expect("a list");
        let replaced = Command::new("systemctl").arg("daemon-reexec").status();
        assert!(replaced.expect("systemctl runs").success());
        let after = runner.list("case".into()).await.expect("systemd is back");
        assert_eq!(before, after, "the same process runs");
        runner.stop(unit.name.clone(), TIME).await.expect("it ends");
        until(&mut events, &unit.name, |state| {
            matches!(state, UnitState::Ended(_))
        })
        .await;
    });
}
