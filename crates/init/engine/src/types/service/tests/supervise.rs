//! A run under supervision: reloads, the watchdog, messages, health checks.

use crate::ids::{Span, Time};
use crate::protocol::{
    DeadlineKind, ExecKind::*, ExitStatus, Input, KillScope, Outcome, Output, Role, StoredFds,
};
use crate::spec::{HealthAction, HealthSpec, ServiceType};
use crate::types::tests::world::{World, commands};

fn reloadable() -> World {
    let mut world = World::service(|spec| spec.commands = commands(&[Start, Reload, Reload, Stop]));
    world.start().spawned().give(Input::Reload).is("reload");
    world
}

#[test]
fn a_reload_leaves_the_service_running_whatever_comes_of_it() {
    let mut world = reloadable();
    world.runs_well().asks(Reload, 1).runs_well().is("running");
    assert!(!world.machine.reload_failed());
    for spawns in [true, false] {
        let mut world = reloadable();
        if spawns {
            world.runs(ExitStatus::Code(1));
        } else {
            world.spawn_fails();
        }
        world.ended("running", Outcome::Success);
        assert!(world.machine.reload_failed() && world.asked.is_empty());
    }
    let mut world = reloadable();
    world.spawned().expire(DeadlineKind::Step).is("reload");
    assert_eq!(world.kills(), [(KillScope::Control, 9)]);
    world
        .ends(Role::Control, ExitStatus::Signal(9))
        .ended("running", Outcome::Success);
    assert!(world.machine.reload_failed());
}

#[test]
fn main_that_ends_during_a_reload_is_noticed_after_it() {
    let mut world = reloadable();
    world
        .spawned()
        .ends(Role::Main, ExitStatus::Code(2))
        .is("reload");
    world
        .ends(Role::Control, ExitStatus::Code(0))
        .runs_well()
        .is("stop")
        .asks(Stop, 0);
    world.runs_well().ended("failed", Outcome::ExitCode);
}

#[test]
fn notify_reload_signals_and_waits_for_both_messages() {
    let mut world = World::service(|spec| spec.service_type = ServiceType::NotifyReload);
    world
        .start()
        .spawned()
        .ready()
        .give(Input::Reload)
        .is("reload-signal");
    assert_eq!(world.kills(), [(KillScope::Main, 1)]);
    world.ready().is("reload-signal");
    world
        .notify(|message| {
            message.reloading = true;
            message.monotonic = Some(Time(5));
        })
        .is("reload-signal");
    world
        .notify(|message| message.reloading = true)
        .is("reload-notify");
    world.ready().is("running");
    world
        .give(Input::Reload)
        .expire(DeadlineKind::Step)
        .is("running");
    assert!(world.machine.reload_failed());
}

#[test]
fn the_watchdog_barks_can_be_changed_and_is_triggered() {
    let watched = || {
        let mut world = World::service(|spec| spec.watchdog = Span::secs(3));
        world.start().spawned();
        world
    };
    let left =
        |world: &World| world.deadlines[&DeadlineKind::Watchdog].since(world.context.now.monotonic);
    let mut world = watched();
    world
        .pass(Span::secs(2))
        .notify(|message| message.watchdog = true);
    assert_eq!(left(&world), 3_000_000);
    world.notify(|message| message.watchdog_usec = Some(Span::secs(7)));
    assert_eq!(left(&world), 7_000_000);
    world.notify(|message| message.extend_timeout = Some(Span::secs(20)));
    assert_eq!(left(&world), 20_000_000);
    world.expire(DeadlineKind::Watchdog).is("stop-watchdog");
    assert_eq!(world.kills(), [(KillScope::All, 6)]);
    world.notify(|message| message.watchdog = true);
    assert!(
        !world.deadlines.contains_key(&DeadlineKind::Watchdog),
        "it goes already"
    );
    world
        .ends(Role::Main, ExitStatus::Core(6))
        .ended("failed", Outcome::Watchdog);

    let mut world = watched();
    world
        .notify(|message| message.watchdog_trigger = true)
        .ended("stop-watchdog", Outcome::Watchdog);
    let mut world = watched();
    world.notify(|message| message.watchdog_usec = Some(Span(0)));
    assert!(world.deadlines.is_empty(), "turned off");
}

#[test]
fn time_may_be_extended_but_not_shortened_nor_limited() {
    let mut world = World::service(|spec| spec.service_type = ServiceType::Notify);
    world.start().spawned();
    let limit = world.deadlines[&DeadlineKind::Step];
    world.notify(|message| message.extend_timeout = Some(Span::secs(1)));
    assert_eq!(world.deadlines[&DeadlineKind::Step], limit);
    world.notify(|message| message.extend_timeout = Some(Span::secs(500)));
    assert!(world.deadlines[&DeadlineKind::Step] > limit);
    world
        .ready()
        .is("running")
        .notify(|message| message.extend_timeout = Some(Span::secs(9)));
    assert!(
        world.deadlines.is_empty(),
        "a service without a limit gets none"
    );
}

#[test]
fn a_run_has_its_time_even_over_a_reload() {
    let mut world = World::service(|spec| {
        spec.runtime_max = Span::secs(9);
        spec.commands = commands(&[Start, Reload]);
    });
    world
        .start()
        .spawned()
        .pass(Span::secs(8))
        .give(Input::Reload)
        .spawned();
    world.expire(DeadlineKind::RuntimeMax).is("reload");
    world.ends(Role::Control, ExitStatus::Code(0)).is("running");
    world
        .expire(DeadlineKind::RuntimeMax)
        .ended("stop-sigterm", Outcome::Timeout);
}

#[test]
fn a_service_that_says_it_stops_is_given_its_time() {
    let mut world = World::service(|spec| spec.watchdog = Span::secs(3));
    world
        .start()
        .spawned()
        .notify(|message| message.stopping = true)
        .is("stop-sigterm");
    assert!(world.kills().is_empty());
    assert_eq!(
        world.deadlines.keys().collect::<Vec<_>>(),
        [&DeadlineKind::Step]
    );
    world
        .ends(Role::Main, ExitStatus::Code(0))
        .ended("dead", Outcome::Success);
}

#[test]
fn the_last_words_of_a_run_that_is_over_are_ignored() {
    let mut world = World::service(|spec| {
        spec.watchdog = Span::secs(3);
        spec.fd_store_max = 4;
    });
    world.start().runs_well().is("dead");
    let before = world.machine.clone();
    world.notify(|message| {
        message.ready = true;
        message.main_pid = Some(7);
        message.watchdog = true;
        message.store = Some(StoredFds {
            name: "x".into(),
            count: 1,
            keep_on_hangup: false,
        });
    });
    assert_eq!(world.machine, before);
    assert!(world.out.is_empty());
}

#[test]
fn the_descriptor_store_has_a_limit_and_gives_room_back() {
    let mut world = World::service(|spec| spec.fd_store_max = 3);
    world.start().spawned();
    let mut store = |name: &str, count| {
        let fds = StoredFds {
            name: name.into(),
            count,
            keep_on_hangup: false,
        };
        let kept = Output::StoreFds(fds.clone());
        world.notify(|message| message.store = Some(fds));
        world.out.contains(&kept)
    };
    assert!(store("a", 2));
    assert!(!store("b", 2), "four would be too many");
    assert!(store("b", 1));
    assert!(!store("b", 1));
    world.notify(|message| message.remove = Some("a".into()));
    assert_eq!(world.the_service().stored_fds(), 1);
    world.give(Input::StoredFdClosed { name: "b".into() });
    assert_eq!(world.the_service().stored_fds(), 0);
}

fn checked(change: impl FnOnce(&mut HealthSpec)) -> World {
    let mut health = HealthSpec {
        interval: Span::secs(10),
        timeout: Span::secs(2),
        retries: 3,
        start_period: Span(0),
        action: HealthAction::Fail,
        gates_readiness: false,
    };
    change(&mut health);
    let mut world = World::service(|spec| spec.health = Some(health));
    world.start().spawned().asks(HealthCheck, 0);
    world
}

fn probe(world: &mut World, status: ExitStatus) {
    if world.asked.is_empty() {
        world.expire(DeadlineKind::Health);
    }
    world.spawned().ends(Role::Probe, status);
}

#[test]
fn so_many_failed_checks_in_a_row_fail_the_run() {
    let bad = ExitStatus::Code(1);
    let mut world = checked(|_| {});
    for status in [bad, bad, ExitStatus::Code(0), bad, bad] {
        probe(&mut world, status);
        world.is("running");
    }
    probe(&mut world, bad);
    world.ended("stop-sigterm", Outcome::HealthCheck);
    assert!(!world.deadlines.contains_key(&DeadlineKind::Health));
}

#[test]
fn a_check_that_takes_too_long_is_killed_and_has_failed() {
    let mut world = checked(|health| health.retries = 1);
    world.spawned().expire(DeadlineKind::Health);
    assert!(world.kills().contains(&(KillScope::Probe, 9)));
    world.ended("stop-sigterm", Outcome::HealthCheck);
}

#[test]
fn failures_of_the_start_period_do_not_count() {
    let mut world = checked(|health| {
        health.retries = 1;
        health.start_period = Span::secs(15);
    });
    probe(&mut world, ExitStatus::Code(1));
    probe(&mut world, ExitStatus::Code(1));
    world.is("running");
    probe(&mut world, ExitStatus::Code(1));
    world.ended("stop-sigterm", Outcome::HealthCheck);
}

#[test]
fn a_check_can_gate_readiness() {
    let mut world = checked(|health| health.gates_readiness = true);
    world.is("start-post");
    probe(&mut world, ExitStatus::Code(1));
    world.is("start-post");
    probe(&mut world, ExitStatus::Code(0));
    world.is("running");
    let mut world = checked(|health| health.gates_readiness = true);
    world.ends(Role::Main, ExitStatus::Code(1));
    world.ended("failed", Outcome::ExitCode);
}

#[test]
fn ill_health_restarts_whatever_the_policy_says() {
    for (action, restarts) in [(HealthAction::Restart, true), (HealthAction::Fail, false)] {
        let mut world = checked(|health| {
            health.retries = 1;
            health.action = action;
        });
        probe(&mut world, ExitStatus::Code(1));
        world.ends(Role::Main, ExitStatus::Signal(15));
        let paused = world.deadlines.contains_key(&DeadlineKind::Restart);
        assert_eq!(paused, restarts, "{action:?}");
    }
}

#[test]
fn a_check_that_only_reports_leaves_the_service_alone() {
    let mut world = checked(|health| {
        health.retries = 1;
        health.action = HealthAction::Report;
    });
    probe(&mut world, ExitStatus::Code(1));
    world.is("running");
    assert_eq!(
        world.the_service().health.as_ref().unwrap().healthy,
        Some(false)
    );
    probe(&mut world, ExitStatus::Code(0));
    assert_eq!(
        world.the_service().health.as_ref().unwrap().healthy,
        Some(true)
    );
}
