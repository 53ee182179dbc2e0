//! Scenarios of sockets, timers and paths.

use super::world::{World, commands};
use crate::ids::Span;
use crate::protocol::{
    ActiveState, DeadlineKind, ExecKind, ExitStatus, Input, KillScope, Outcome, Output, Role,
    SocketError,
};
use crate::spec::*;
use crate::types::{Machine, Socket, Timer};

const TRIGGER: Output = Output::Trigger { connection: None };

fn socket(change: impl FnOnce(&mut SocketSpec)) -> World {
    let mut spec = SocketSpec {
        listeners: 1,
        ..SocketSpec::default()
    };
    change(&mut spec);
    World::new(KindSpec::Socket(Box::new(spec)))
}

fn listening(change: impl FnOnce(&mut SocketSpec)) -> World {
    let mut world = socket(change);
    world.start().is("start-chown").said(&Output::OpenSockets);
    world
        .give(Input::SocketsOpened { error: None })
        .is("listening");
    world.said(&Output::WatchSockets(true));
    assert!(world.deadlines.is_empty());
    world
}

fn the_socket(world: &World) -> &Socket {
    match &world.machine {
        Machine::Socket(socket) => socket,
        other => panic!("{other:?} is no socket"),
    }
}

#[test]
fn traffic_triggers_and_a_service_that_ends_gives_the_sockets_back() {
    let mut world = listening(|spec| spec.flush_pending = true);
    world
        .give(Input::Incoming)
        .is("running")
        .said(&TRIGGER)
        .said(&Output::WatchSockets(false));
    world
        .triggered(ActiveState::Activating, Outcome::Success)
        .is("running");
    world
        .triggered(ActiveState::Active, Outcome::Success)
        .is("running");
    world
        .triggered(ActiveState::Inactive, Outcome::Success)
        .is("listening");
    let expected = [Output::FlushSockets, Output::WatchSockets(true)];
    let order: Vec<_> = world
        .out
        .iter()
        .filter(|o| expected.contains(o))
        .cloned()
        .collect();
    assert_eq!(order, expected);
    // Started by somebody else.
    world
        .triggered(ActiveState::Active, Outcome::Success)
        .is("running");
}

#[test]
fn no_connection_is_lost_while_the_service_restarts() {
    let mut world = listening(|_| {});
    world.give(Input::Incoming);
    for pending in [true, false] {
        world.give(Input::TriggeredChanged {
            active: if pending {
                ActiveState::Inactive
            } else {
                ActiveState::Active
            },
            outcome: Outcome::Success,
            start_pending: pending,
        });
        world.is("running");
        assert!(
            world.out.is_empty(),
            "the sockets stay open and nothing is thrown away"
        );
    }
    world
        .triggered(ActiveState::Failed, Outcome::ExitCode)
        .is("listening");
    assert!(
        !world.out.contains(&Output::CloseSockets) && !world.out.contains(&Output::FlushSockets)
    );
    // Traffic that waited triggers again.
    world.give(Input::Incoming).said(&TRIGGER);
}

#[test]
fn limits_end_a_socket() {
    let mut world = listening(|spec| spec.trigger_limit.burst = 2);
    for _ in 0..2 {
        world.give(Input::Incoming).is("running");
        world
            .triggered(ActiveState::Failed, Outcome::ExitCode)
            .is("listening");
    }
    world
        .give(Input::Incoming)
        .ended("failed", Outcome::TriggerLimitHit);
    world.said(&Output::CloseSockets);
    let mut world = listening(|_| {});
    world.give(Input::Incoming);
    world
        .triggered(ActiveState::Failed, Outcome::StartLimitHit)
        .ended("failed", Outcome::ServiceStartLimitHit);
    // After the window there is room again.
    let mut world = listening(|spec| spec.trigger_limit.burst = 1);
    for _ in 0..4 {
        world
            .give(Input::Incoming)
            .triggered(ActiveState::Inactive, Outcome::Success);
        world.is("listening").pass(Span::secs(3));
    }
}

#[test]
fn connections_are_counted_and_too_many_are_refused() {
    let mut world = listening(|spec| {
        spec.accept = true;
        spec.max_connections = 2;
    });
    for number in [1, 2] {
        world
            .give(Input::Accepted { number })
            .said(&Output::Trigger {
                connection: Some(number),
            });
    }
    world.give(Input::Accepted { number: 3 }).is("listening");
    world.said(&Output::DropConnection { number: 3 });
    world
        .give(Input::ConnectionClosed)
        .give(Input::Accepted { number: 4 });
    world.said(&Output::Trigger {
        connection: Some(4),
    });
    assert_eq!(
        (the_socket(&world).connections, the_socket(&world).refused),
        (2, 1)
    );
    world.stop().is("dead").give(Input::Accepted { number: 5 });
    world.said(&Output::DropConnection { number: 5 });
}

#[test]
fn the_commands_of_a_socket_run_around_its_life() {
    use ExecKind::*;
    let all = |spec: &mut SocketSpec| {
        spec.commands = commands(&[StartPre, StartPost, StopPre, StopPost]);
    };
    let open = Input::SocketsOpened { error: None };
    let mut world = socket(all);
    world.start().is("start-pre").runs_well().is("start-chown");
    world
        .give(open.clone())
        .is("start-post")
        .runs_well()
        .is("listening");
    world
        .stop()
        .is("stop-pre")
        .runs_well()
        .is("stop-post")
        .said(&Output::CloseSockets);
    world.runs_well().ended("dead", Outcome::Success);
    let failed = Input::SocketsOpened {
        error: Some(SocketError {
            index: 0,
            errno: 98,
        }),
    };
    let mut world = socket(all);
    world
        .start()
        .runs_well()
        .give(failed)
        .is("stop-post")
        .runs_well();
    world.ended("failed", Outcome::Resources);
    socket(all)
        .start()
        .runs(ExitStatus::Code(1))
        .ended("failed", Outcome::ExitCode);
    socket(all)
        .start()
        .spawn_fails()
        .ended("failed", Outcome::ExitCode);
    let mut world = socket(all);
    world
        .start()
        .runs_well()
        .give(open)
        .runs(ExitStatus::Code(1))
        .is("stop-pre");
    world
        .runs_well()
        .runs_well()
        .ended("failed", Outcome::ExitCode);
}

#[test]
fn socket_commands_have_a_deadline_and_so_have_their_signals() {
    let step = DeadlineKind::Step;
    let mut world = socket(|spec| spec.commands = commands(&[ExecKind::StartPre]));
    world.start().spawned().expire(step).is("final-sigterm");
    world.expire(step).is("final-sigkill").expire(step);
    world.ended("failed", Outcome::Timeout);
    let mut world = listening(|spec| spec.commands = commands(&[ExecKind::StopPre]));
    world.stop().spawned().expire(step).is("stop-pre-sigterm");
    world.expire(step).is("stop-pre-sigkill");
    world
        .ends(Role::Control, ExitStatus::Signal(9))
        .ended("failed", Outcome::Timeout);
    // A stop before the command appears: it is ended when it does.
    let mut world = socket(|spec| spec.commands = commands(&[ExecKind::StartPre]));
    world.start().stop().is("final-sigterm").spawned();
    assert_eq!(world.kills(), [(KillScope::All, 15)]);
    world
        .ends(Role::Control, ExitStatus::Signal(15))
        .ended("dead", Outcome::Success);
}

#[test]
fn a_socket_whose_service_runs_without_it_does_not_start() {
    let mut world = socket(|_| {});
    world
        .triggered(ActiveState::Active, Outcome::Success)
        .start();
    world.ended("failed", Outcome::Resources);
}

fn timer(change: impl FnOnce(&mut TimerSpec)) -> World {
    let mut spec = TimerSpec {
        accuracy: Span(1),
        ..TimerSpec::default()
    };
    change(&mut spec);
    World::new(KindSpec::Timer(Box::new(spec)))
}

fn the_timer(world: &World) -> &Timer {
    match &world.machine {
        Machine::Timer(timer) => timer,
        other => panic!("{other:?} is no timer"),
    }
}

/// How long until it elapses, in seconds.
fn left(world: &World) -> Option<u64> {
    let at = world.deadlines.get(&DeadlineKind::Elapse)?;
    Some(at.since(world.context.now.monotonic) / 1_000_000)
}

#[test]
fn each_base_counts_from_where_it_should() {
    // The world is 1000 s old.
    for (base, seconds, expected) in [
        (TimerBase::Active, 7, Some(7)),
        (TimerBase::Boot, 1_030, Some(30)),
        (TimerBase::Boot, 10, Some(0)),
        (TimerBase::Startup, 995, Some(0)),
        (TimerBase::Startup, 1_000, Some(2)),
        (TimerBase::UnitActive, 5, None),
        (TimerBase::UnitInactive, 5, None),
    ] {
        let mut world = timer(|spec| {
            spec.monotonic = [(base, Span::secs(seconds))].into();
            spec.startup = crate::ids::Time(2_000_000);
        });
        world.start();
        assert_eq!(left(&world), expected, "{base:?}");
        world.is(if expected.is_some() {
            "waiting"
        } else {
            "elapsed"
        });
    }
}

#[test]
fn a_repeating_timer_counts_from_its_unit() {
    for (base, expected) in [(TimerBase::UnitActive, 55), (TimerBase::UnitInactive, 60)] {
        let mut world = timer(|spec| {
            spec.monotonic = [(TimerBase::Active, Span::secs(1)), (base, Span::secs(60))].into();
        });
        world
            .triggered(ActiveState::Inactive, Outcome::Success)
            .start();
        world
            .expire(DeadlineKind::Elapse)
            .is("running")
            .said(&TRIGGER);
        world
            .triggered(ActiveState::Active, Outcome::Success)
            .is("running");
        assert_eq!(left(&world), None, "nothing is awaited while the unit runs");
        world
            .pass(Span::secs(5))
            .triggered(ActiveState::Inactive, Outcome::Success);
        world.is("waiting");
        assert_eq!(left(&world), Some(expected), "{base:?}");
    }
}

#[test]
fn a_single_shot_elapses_once() {
    for (remain, sub) in [(true, "elapsed"), (false, "dead")] {
        let mut world = timer(|spec| {
            spec.monotonic = [(TimerBase::Active, Span::secs(1))].into();
            spec.remain_after_elapse = remain;
        });
        world.start().expire(DeadlineKind::Elapse).is("running");
        world
            .triggered(ActiveState::Active, Outcome::Success)
            .is("running");
        world
            .triggered(ActiveState::Inactive, Outcome::Success)
            .is(sub);
    }
}

#[test]
fn calendar_lines_are_computed_by_the_executor() {
    let mut world = timer(|spec| {
        spec.calendars = 2;
        spec.random_delay = Span::secs(4);
    });
    let now = world.context.now.real;
    world.start().said(&Output::ComputeElapse { after: now });
    world.give(Input::NextElapse {
        after: now - 1,
        at: vec![Some(now)],
    });
    assert_eq!(world.real_deadline, None, "the answer to an older question");
    world.give(Input::NextElapse {
        after: now,
        at: vec![Some(now + 20_000_000), Some(now + 10_000_000)],
    });
    assert_eq!(world.real_deadline, Some(now + 14_000_000));
    world
        .give(Input::Deadline(DeadlineKind::Elapse))
        .is("waiting");
    world
        .pass(Span::secs(14))
        .give(Input::Deadline(DeadlineKind::Elapse))
        .is("running");
    let fired = world.context.now.real;
    world
        .triggered(ActiveState::Active, Outcome::Success)
        .pass(Span::secs(100));
    world.triggered(ActiveState::Inactive, Outcome::Success);
    world.said(&Output::ComputeElapse { after: fired });
    world
        .give(Input::NextElapse {
            after: fired,
            at: vec![None, None],
        })
        .is("elapsed");
    assert_eq!(world.real_deadline, None);
}

#[test]
fn a_persistent_timer_makes_up_for_what_was_missed() {
    let make = || {
        let mut world = timer(|spec| {
            spec.calendars = 1;
            spec.persistent = true;
        });
        world.start().said(&Output::ReadStamp).is("waiting");
        world
    };
    let mut world = make();
    let now = world.context.now.real;
    let stamp = now - 1_000_000_000;
    world
        .give(Input::LastStamp { at: Some(stamp) })
        .said(&Output::ComputeElapse { after: stamp });
    world.give(Input::NextElapse {
        after: stamp,
        at: vec![Some(stamp + 5)],
    });
    assert_eq!(world.real_deadline, Some(now), "missed, so at once");
    world
        .give(Input::Deadline(DeadlineKind::Elapse))
        .is("running")
        .said(&Output::StampTimer);
    // The first start ever leaves a stamp; one from the future counts as now.
    make()
        .give(Input::LastStamp { at: None })
        .said(&Output::StampTimer)
        .said(&Output::ComputeElapse { after: now });
    make()
        .give(Input::LastStamp { at: Some(now + 9) })
        .said(&Output::ComputeElapse { after: now });
}

#[test]
fn a_clock_that_is_set_moves_the_moments() {
    let mut world = timer(|spec| spec.calendars = 1);
    let now = world.context.now.real;
    world.start().give(Input::NextElapse {
        after: now,
        at: vec![Some(now + 50)],
    });
    world.context.now.real = now - 1_000;
    world
        .give(Input::ClockChanged)
        .said(&Output::ComputeElapse { after: now - 1_000 });
    assert_eq!(world.real_deadline, None);
    let mut world = timer(|spec| spec.on_clock_change = true);
    world
        .start()
        .is("waiting")
        .give(Input::ClockChanged)
        .is("running")
        .said(&TRIGGER);
    let mut world = timer(|spec| spec.on_timezone_change = true);
    world.start().give(Input::ClockChanged).is("waiting");
    world.give(Input::TimezoneChanged).is("running");
}

#[test]
fn a_timer_that_wakes_the_machine_uses_the_real_time_alarm() {
    let mut world = timer(|spec| {
        spec.monotonic = [(TimerBase::Active, Span::secs(30))].into();
        spec.wake_system = true;
    });
    let at = Some(world.context.now.real + 30_000_000);
    world.start().said(&Output::RealDeadline { at, wake: true });
    world.stop().is("dead");
    assert_eq!((world.real_deadline, left(&world)), (None, None));
    assert_eq!(the_timer(&world).next, None);
}

#[test]
fn a_path_triggers_and_looks_again_when_the_unit_is_down() {
    let mut world = World::new(KindSpec::Path(Box::new(PathSpec {
        make_directory: true,
        trigger_limit: RateLimit {
            interval: Span::secs(2),
            burst: 2,
        },
        ..PathSpec::default()
    })));
    world
        .start()
        .is("waiting")
        .said(&Output::MakeDirectories)
        .said(&Output::WatchPaths(true));
    world.give(Input::PathsQuiet).is("waiting");
    for _ in 0..2 {
        world.give(Input::PathTriggered { index: 0 }).is("running");
        world.said(&TRIGGER).said(&Output::WatchPaths(false));
        world
            .triggered(ActiveState::Active, Outcome::Success)
            .is("running");
        world
            .triggered(ActiveState::Inactive, Outcome::Success)
            .is("waiting");
        world.said(&Output::WatchPaths(true));
    }
    world
        .give(Input::PathTriggered { index: 0 })
        .ended("failed", Outcome::TriggerLimitHit);
    world.start().give(Input::PathTriggered { index: 0 });
    world
        .triggered(ActiveState::Failed, Outcome::StartLimitHit)
        .ended("failed", Outcome::UnitStartLimitHit);
    world
        .start()
        .stop()
        .is("dead")
        .said(&Output::WatchPaths(false));
}
