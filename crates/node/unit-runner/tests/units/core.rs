//! Units on `muster-core`.

use std::sync::Arc;

use muster_lab::machine::{Build, Machine};
use muster_lab::muster;
use muster_unit_runner::{CoreRunner, UnitRunner as _, UnitState};
use rustix::process::{Pid, Signal, kill_process};

use crate::contract::{self, TIME, block_on, shell, until};

fn boot() -> (Machine, CoreRunner) {
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).expect("programs");
    let machine = muster::boot(&muster::machine(&programs), TIME).expect("it boots");
    let runner = CoreRunner::new(machine.path(muster::CONTROL_SOCKET));
    (machine, runner)
}

#[test]
fn core_keeps_the_contract() {
    muster_lab::require!(Root, Cgroup2);
    let (machine, runner) = boot();
    block_on(contract::holds(Arc::new(runner), &machine.path("/")));
}

#[test]
fn units_and_their_story_go_on_when_core_dies() {
    muster_lab::require!(Root, Cgroup2);
    let (machine, runner) = boot();
    block_on(async {
        let mut events = runner.watch("case".into());
        let unit = shell("stays", "exec sleep 1000");
        runner.start(unit.clone()).await.expect("it starts");
        until(&mut events, &unit.name, |state| {
            *state == UnitState::Running
        })
        .await;
        let before = runner.list("case".into()).await.expect("a list");
        let core = muster::manager(&machine)
            .expect("processes")
            .expect("a manager");
        let host_pid = core.host_pid;
        kill_process(Pid::from_raw(host_pid).expect("a pid"), Signal::KILL).expect("it dies");
        // Asked while nobody may be there: the question waits.
        let after = runner.list("case".into()).await.expect("core is back");
        assert_eq!(before, after, "the same process runs");
        let other = shell("later", "exec sleep 1000");
        runner.start(other.clone()).await.expect("it starts");
        until(&mut events, &other.name, |state| {
            *state == UnitState::Running
        })
        .await;
        for name in [unit.name, other.name] {
            runner.stop(name.clone(), TIME).await.expect("it ends");
            until(&mut events, &name, |state| {
                matches!(state, UnitState::Ended(_))
            })
            .await;
        }
    });
}
