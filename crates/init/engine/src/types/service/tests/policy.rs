//! Whether another run follows.

use crate::ids::Span;
use crate::protocol::{DeadlineKind, ExecKind::*, ExitStatus, Input, Outcome, Output, Role};
use crate::spec::{Restart, ServiceSpec, ServiceType};
use crate::types::tests::world::{World, commands};

/// The ways in which a run can end, each bringing a service to rest.
fn end(how: &str, restart: Restart, change: impl FnOnce(&mut ServiceSpec)) -> World {
    let mut world = World::service(|spec| {
        spec.restart = restart;
        spec.watchdog = Span::secs(3);
        spec.runtime_max = Span::secs(9);
        spec.commands = commands(&[Condition, Start]);
        if how == "protocol" {
            spec.service_type = ServiceType::Notify;
        }
        change(spec);
    });
    world.start();
    if how == "condition" {
        world.runs(ExitStatus::Code(1));
        return world;
    }
    world.runs_well().spawned();
    let killed = ExitStatus::Signal(9);
    match how {
        "exit 0" | "protocol" => world.ends(Role::Main, ExitStatus::Code(0)),
        "exit 1" => world.ends(Role::Main, ExitStatus::Code(1)),
        "clean signal" => world.ends(Role::Main, ExitStatus::Signal(15)),
        "signal" => world.ends(Role::Main, killed),
        "core" => world.ends(Role::Main, ExitStatus::Core(11)),
        "timeout" => world
            .expire(DeadlineKind::RuntimeMax)
            .ends(Role::Main, ExitStatus::Signal(15)),
        "watchdog" => world
            .expire(DeadlineKind::Watchdog)
            .ends(Role::Main, ExitStatus::Core(6)),
        "oom" => world.give(Input::OomKill).ends(Role::Main, killed),
        "stop" => world.stop().ends(Role::Main, killed),
        other => panic!("{other}"),
    };
    world
}

#[test]
fn every_policy_with_every_end() {
    use Restart::*;
    // One row per end: the outcome, and whether each policy restarts.
    #[rustfmt::skip]
    let table = [
        // how            outcome                 no     success failure abnormal watchdog abort  always
        ("exit 0",       Outcome::Success,       [false, true,  false, false, false, false, true]),
        ("clean signal", Outcome::Success,       [false, true,  false, false, false, false, true]),
        ("exit 1",       Outcome::ExitCode,      [false, false, true,  false, false, false, true]),
        ("signal",       Outcome::Signal,        [false, false, true,  true,  false, true,  true]),
        ("core",         Outcome::CoreDump,      [false, false, true,  true,  false, true,  true]),
        ("timeout",      Outcome::Timeout,       [false, false, true,  true,  false, false, true]),
        ("watchdog",     Outcome::Watchdog,      [false, false, true,  true,  true,  false, true]),
        ("oom",          Outcome::OomKill,       [false, false, true,  true,  false, false, true]),
        ("protocol",     Outcome::Protocol,      [false, false, true,  true,  false, false, true]),
        ("condition",    Outcome::ExecCondition, [false, false, false, false, false, false, false]),
        ("stop",         Outcome::Signal,        [false, false, false, false, false, false, false]),
    ];
    let policies = [
        No, OnSuccess, OnFailure, OnAbnormal, OnWatchdog, OnAbort, Always,
    ];
    for (how, outcome, expected) in table {
        for (policy, restarts) in policies.into_iter().zip(expected) {
            let mut world = end(how, policy, |spec| {
                spec.watchdog = if how == "timeout" {
                    Span::INFINITY
                } else {
                    spec.watchdog
                };
            });
            let sub = match outcome {
                _ if restarts => "auto-restart",
                Outcome::Success | Outcome::ExecCondition => "dead",
                _ => "failed",
            };
            assert_eq!((world.sub(), how, policy), (sub, how, policy));
            world.ended(sub, outcome);
            let armed: Vec<_> = world.deadlines.keys().copied().collect();
            let expected: &[_] = if restarts {
                &[DeadlineKind::Restart]
            } else {
                &[]
            };
            assert_eq!(armed, expected, "{how} {policy:?}");
        }
    }
}

#[test]
fn exit_statuses_prevent_and_force_restarts() {
    end("exit 1", Restart::Always, |spec| {
        spec.restart_prevent.add_code(1)
    })
    .is("failed");
    end("signal", Restart::Always, |spec| {
        spec.restart_prevent.add_signal(9)
    })
    .is("failed");
    end("exit 1", Restart::No, |spec| spec.restart_force.add_code(1)).is("auto-restart");
    end("signal", Restart::No, |spec| {
        spec.restart_force.add_signal(9)
    })
    .is("auto-restart");
    let both = |spec: &mut ServiceSpec| {
        spec.restart_prevent.add_code(1);
        spec.restart_force.add_code(1);
    };
    end("exit 1", Restart::Always, both).is("failed");
    end("exit 1", Restart::OnFailure, |spec| {
        spec.success_status.add_code(1)
    })
    .ended("dead", Outcome::Success);
}

/// The engine's part of an automatic restart.
fn restart(world: &mut World) {
    world.expire(DeadlineKind::Restart).said(&Output::Restart);
    world.context.restart_pending = true;
    world.give(Input::Stop).is("dead");
    world.context.restart_pending = false;
    world.start();
}

#[test]
fn the_pause_grows_in_steps_and_starts_over_after_a_manual_start() {
    let mut world = World::service(|spec| {
        spec.restart = Restart::Always;
        spec.restart_sec = Span::secs(1);
        spec.restart_steps = 4;
        spec.restart_max_delay = Span::secs(16);
    });
    world.start();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        world.runs_well().is("auto-restart");
        let until = world.deadlines[&DeadlineKind::Restart];
        pauses.push(until.since(world.context.now.monotonic) / 1_000_000);
        restart(&mut world);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
    assert_eq!(world.the_service().restarts, 6);
    world.runs_well().is("auto-restart");
    world.context.stop_pending = false;
    world.start();
    assert_eq!(
        world.the_service().restarts,
        0,
        "somebody started it by hand"
    );
}

#[test]
fn a_stop_during_the_pause_ends_it_and_what_was_kept() {
    let mut world = World::service(|spec| {
        spec.restart = Restart::Always;
        spec.fd_store_max = 8;
    });
    world.start().spawned().notify(|message| {
        message.store = Some(crate::protocol::StoredFds {
            name: "x".into(),
            count: 2,
            keep_on_hangup: false,
        });
    });
    world
        .ends(Role::Main, ExitStatus::Code(0))
        .is("auto-restart");
    assert_eq!(world.the_service().stored_fds(), 2, "kept over a restart");
    world.stop().is("dead").said(&Output::DropFds(None));
    assert!(world.deadlines.is_empty());
    world.context.stop_pending = false;
    world.start();
    assert_eq!(world.the_service().restarts, 0);
}

#[test]
fn the_start_limit_ends_the_restarts() {
    let mut world = World::service(|spec| spec.restart = Restart::Always);
    world.start().runs_well().is("auto-restart");
    world
        .give(Input::StartLimitHit)
        .ended("failed", Outcome::StartLimitHit);
    assert!(world.deadlines.is_empty());
    world
        .give(Input::ResetFailed)
        .ended("dead", Outcome::Success);
}

#[test]
fn nothing_is_restarted_while_the_machine_goes_down() {
    let mut world = World::service(|spec| spec.restart = Restart::Always);
    world.start().spawned();
    world.context.shutting_down = true;
    world.ends(Role::Main, ExitStatus::Code(0)).is("dead");
}
