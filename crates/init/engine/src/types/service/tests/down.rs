//! The way down.

use crate::protocol::{
    DeadlineKind::Step, ExecKind::*, ExitStatus, Input, KillScope, Outcome, Output, Role,
};
use crate::spec::{KillMode, OomPolicy, TimeoutFailureMode};
use crate::types::tests::world::{World, commands};

const TERM: ExitStatus = ExitStatus::Signal(15);
const KILLED: ExitStatus = ExitStatus::Signal(9);

#[test]
fn stop_commands_run_before_and_clean_up_after_the_signals() {
    let mut world = World::service(|spec| {
        spec.commands = commands(&[Start, Stop, Stop, StopPost]);
    });
    world.start().spawned().stop().is("stop").asks(Stop, 0);
    world
        .runs_well()
        .asks(Stop, 1)
        .runs_well()
        .is("stop-sigterm");
    assert_eq!(world.kills(), [(KillScope::All, 15)]);
    world.ends(Role::Main, TERM).is("stop-post").runs_well();
    world.ended("dead", Outcome::Success);
}

#[test]
fn a_failing_stop_command_fails_the_run_but_not_the_stop() {
    for kind in [Stop, StopPost] {
        for spawns in [true, false] {
            let mut world = World::service(|spec| spec.commands = commands(&[Start, kind, kind]));
            world.start().spawned().stop();
            if kind == StopPost {
                world.ends(Role::Main, TERM);
            }
            if spawns {
                world.runs(ExitStatus::Code(1));
            } else {
                world.spawn_fails();
            }
            if kind == Stop {
                world.is("stop-sigterm").ends(Role::Main, TERM);
            }
            assert!(world.asked.is_empty(), "the second command is not run");
            world.report_empty().ended("failed", Outcome::ExitCode);
        }
    }
}

#[test]
fn each_kill_mode_spares_what_it_should() {
    // A main process and one more in the cgroup that ignores what is gentle.
    #[rustfmt::skip]
    let cases = [
        (KillMode::ControlGroup, vec![(KillScope::All, 15)], vec![(KillScope::All, 9)], "failed"),
        (KillMode::Mixed, vec![(KillScope::Main, 15)], vec![(KillScope::All, 9)], "dead"),
        (KillMode::Process, vec![(KillScope::Main, 15)], vec![], "dead"),
        (KillMode::None, vec![], vec![], "dead"),
    ];
    for (mode, gentle, harsh, sub) in cases {
        let mut world = World::service(|spec| spec.kill.mode = mode);
        world.start().spawned();
        world.processes.push((999, Role::Probe));
        world.stop();
        assert_eq!(world.kills(), gentle, "{mode:?}");
        if mode == KillMode::None {
            world.is(sub);
            continue;
        }
        world.ends(Role::Main, TERM);
        if mode == KillMode::ControlGroup {
            world.is("stop-sigterm").expire(Step);
        }
        assert_eq!(world.kills(), harsh, "{mode:?}");
        if !harsh.is_empty() {
            world.is("stop-sigkill").processes.clear();
            world.report_empty();
        }
        world.is(sub);
    }
}

#[test]
fn without_sigkill_what_does_not_go_is_left() {
    for mode in [KillMode::ControlGroup, KillMode::Mixed, KillMode::Process] {
        let mut world = World::service(|spec| {
            spec.kill.mode = mode;
            spec.kill.send_sigkill = false;
        });
        world.start().spawned().stop().is("stop-sigterm");
        world.expire(Step).ended("failed", Outcome::Timeout);
        assert!(world.kills().iter().all(|(_, signal)| *signal != 9));
        assert!(world.deadlines.is_empty());
    }
}

#[test]
fn a_process_that_appears_after_the_stop_is_ended() {
    for kind in [Condition, StartPre, Start, StartPost] {
        let mut world = World::service(|spec| {
            spec.commands = commands(&[Condition, StartPre, Start, StartPost]);
        });
        world.start();
        while world.asked[0].1.kind != kind {
            if world.asked[0].0 == Role::Main {
                world.spawned();
            } else {
                world.runs_well();
            }
        }
        let role = world.asked[0].0;
        world.stop().is("stop-sigterm");
        world.give(Input::CgroupEmpty).is("stop-sigterm");
        world.spawned();
        let scope = match role {
            Role::Main => KillScope::Main,
            _ => KillScope::Control,
        };
        assert_eq!(world.kills(), [(scope, 15)], "{kind:?}");
        if kind == StartPost {
            world.ends(Role::Main, TERM);
        }
        world.ends(role, TERM);
        world.ended("dead", Outcome::Success);
    }
}

#[test]
fn a_process_of_a_run_that_is_over_is_killed_as_a_stray() {
    let mut world = World::service(|_| {});
    world.start();
    let late = world.process();
    let pid = late.pid;
    world.stop().expire(Step).expire(Step);
    world.is("failed").asked.clear();
    world.give(Input::Spawned {
        role: Role::Main,
        process: late.clone(),
    });
    world.said(&Output::KillStray { pid }).is("failed");
    world.context.stop_pending = false;
    world.start().give(Input::Spawned {
        role: Role::Main,
        process: late,
    });
    world.said(&Output::KillStray { pid }).is("start");
}

#[test]
fn the_order_of_the_last_reports_does_not_matter() {
    for empty_first in [true, false] {
        let mut world = World::service(|spec| spec.commands = commands(&[Start, Reload]));
        world.start().spawned().give(Input::Reload).spawned();
        world.stop().is("stop-sigterm");
        let pids: Vec<u32> = world.processes.drain(..).map(|(pid, _)| pid).collect();
        if empty_first {
            world.give(Input::CgroupEmpty).is("stop-sigterm");
        }
        for pid in pids {
            world.give(Input::Exited { pid, status: TERM });
        }
        if !empty_first {
            world.is("stop-sigterm").give(Input::CgroupEmpty);
        }
        world.ended("dead", Outcome::Success);
    }
}

#[test]
fn a_start_that_takes_too_long_ends_by_its_failure_mode() {
    for (mode, sub, signal) in [
        (TimeoutFailureMode::Terminate, "stop-sigterm", 15),
        (TimeoutFailureMode::Abort, "stop-watchdog", 6),
        (TimeoutFailureMode::Kill, "stop-sigkill", 9),
    ] {
        for kind in [Condition, StartPre, Start, StartPost] {
            let mut world = World::service(|spec| {
                spec.service_type = crate::spec::ServiceType::Oneshot;
                spec.commands = commands(&[Condition, StartPre, Start, StartPost]);
                spec.start_failure_mode = mode;
            });
            world.start();
            while world.asked[0].1.kind != kind {
                world.runs_well();
            }
            let role = world.asked[0].0;
            world.spawned().expire(Step).is(sub);
            assert_eq!(world.kills(), [(KillScope::All, signal)]);
            world.ends(role, KILLED).ended("failed", Outcome::Timeout);
        }
    }
}

#[test]
fn a_stop_that_takes_too_long_ends_by_its_failure_mode() {
    let make = |mode, kind| {
        let mut world = World::service(|spec| {
            spec.commands = commands(&[Start, kind]);
            spec.stop_failure_mode = mode;
        });
        world.start().spawned().stop();
        if kind == StopPost {
            world.ends(Role::Main, TERM);
        }
        world.spawned();
        world
    };
    for (mode, first, last) in [
        (
            TimeoutFailureMode::Terminate,
            "stop-sigterm",
            "final-sigterm",
        ),
        (TimeoutFailureMode::Abort, "stop-watchdog", "final-watchdog"),
        (TimeoutFailureMode::Kill, "stop-sigkill", "final-sigkill"),
    ] {
        let mut world = make(mode, Stop);
        world.expire(Step).is(first);
        world.ends(Role::Control, KILLED).ends(Role::Main, KILLED);
        world.ended("failed", Outcome::Timeout);
        let mut world = make(mode, StopPost);
        world.expire(Step).is(last);
        world
            .ends(Role::Control, KILLED)
            .ended("failed", Outcome::Timeout);
    }
    // Whatever happens, patience ends.
    let mut world = make(TimeoutFailureMode::Abort, StopPost);
    world
        .expire(Step)
        .expire(Step)
        .is("final-sigkill")
        .expire(Step);
    world.ended("failed", Outcome::Timeout);
    let mut world = World::service(|spec| spec.stop_failure_mode = TimeoutFailureMode::Abort);
    world
        .start()
        .spawned()
        .stop()
        .expire(Step)
        .is("stop-watchdog");
    world.expire(Step).is("stop-sigkill").expire(Step);
    world.ended("failed", Outcome::Timeout);
}

#[test]
fn memory_policies() {
    for (policy, sub, signals) in [
        (OomPolicy::Continue, "running", vec![]),
        (OomPolicy::Stop, "stop-sigterm", vec![(KillScope::All, 15)]),
        (OomPolicy::Kill, "stop-sigkill", vec![(KillScope::All, 9)]),
    ] {
        let mut world = World::service(|spec| spec.oom_policy = policy);
        world.start().spawned().give(Input::OomKill).is(sub);
        assert_eq!(world.kills(), signals);
    }
    // The end of the process may be reported before its cause.
    let mut world = World::service(|spec| spec.commands = commands(&[Start, StopPost]));
    world
        .start()
        .spawned()
        .ends(Role::Main, KILLED)
        .is("stop-post");
    world.spawned().give(Input::OomKill).is("final-sigkill");
    world
        .ends(Role::Control, KILLED)
        .ended("failed", Outcome::OomKill);
}

#[test]
fn a_restart_job_uses_the_restart_signal() {
    let mut world = World::service(|spec| spec.kill.restart_signal = 10);
    world.start().spawned();
    world.context.restart_pending = true;
    world.give(Input::Stop);
    assert_eq!(world.kills(), [(KillScope::All, 10)]);
}
