//! Timers, and what holds them.

use std::time::Duration;

use muster_lifecycle::timers::{Timers, WhenIdle};
use muster_lifecycle::{Halt, Reason, RefusedVerb, State, Verb, VerbSet};
use muster_machines::{AskError, Happened, MachineOrder, WorkKind};
use muster_provider::sim::SimSettings;

use crate::rig::{Manager, World, order};

const HOUR: Duration = Duration::from_secs(3600);

fn timed(timers: Timers) -> MachineOrder {
    MachineOrder { timers, ..order() }
}

fn idle() -> Timers {
    Timers {
        idle: Some(HOUR),
        ..Timers::default()
    }
}

/// Everything that is due now has been decided.
async fn look(manager: &Manager) {
    let _ = manager.machines.find_orphans().await.unwrap();
    let _ = manager.machines.find_orphans().await.unwrap();
}

#[tokio::test]
async fn an_idle_machine_is_stopped_and_destroyed_later() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager
        .made(timed(Timers {
            stopped: Some(10 * HOUR),
            when_idle: WhenIdle::Hibernate,
            ..idle()
        }))
        .await;
    world.clock.advance(HOUR / 2);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    world.clock.advance(HOUR / 2);
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Hibernated)).await;
    world.clock.advance(9 * HOUR);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Stopped(Halt::Hibernated));
    world.clock.advance(HOUR);
    look(&manager).await;
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::StoppedLong));
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn a_busy_machine_is_not_put_away_until_its_work_has_ended() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let order = timed(Timers {
        lifetime: Some(HOUR),
        ..idle()
    });
    for kind in [WorkKind::Session, WorkKind::Command] {
        let id = manager.made(order.clone()).await;
        let work = manager.machines.begin_work(&id, kind).unwrap();
        world.clock.advance(100 * HOUR);
        look(&manager).await;
        assert_eq!(manager.state(&id), State::Running);
        drop(work);
        let gone = manager.wait(&id, State::Terminated).await;
        assert_eq!(gone.end(), Some(Reason::Lifetime));
    }
    let id = manager.made(order).await;
    let kept = manager.machines.heartbeat(&id, 200 * HOUR).await;
    kept.unwrap();
    world.clock.advance(100 * HOUR);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    world.clock.advance(101 * HOUR);
    look(&manager).await;
    manager.wait(&id, State::Terminated).await;
}

#[tokio::test]
async fn what_is_said_to_be_busy_is_busy_for_the_next_manager_too() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.made(timed(idle())).await;
    let kept = manager.machines.heartbeat(&id, 200 * HOUR).await;
    kept.unwrap();
    // What was said before is not shortened.
    manager.machines.heartbeat(&id, HOUR).await.unwrap();
    manager.die().await;
    let manager = world.start().await;
    world.clock.advance(199 * HOUR);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    let until = manager.machines.get(&id).unwrap().work().heartbeat_until;
    assert_eq!(
        until,
        manager.machines.get(&id).unwrap().record().busy_until
    );
    world.clock.advance(2 * HOUR);
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Off)).await;
    let nobody = muster_provider::MachineId::random();
    let unknown = manager.machines.heartbeat(&nobody, HOUR).await;
    assert_eq!(unknown, Err(AskError::Unknown(nobody)));
}

#[tokio::test]
async fn an_unreachable_machine_is_not_dead() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.made(timed(idle())).await;
    manager.machines.set_reachable(&id, false).await;
    world.clock.advance(100 * HOUR);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    manager.machines.set_reachable(&id, true).await;
    look(&manager).await;
    assert_eq!(
        manager.state(&id),
        State::Running,
        "it begins to be idle now"
    );
    world.clock.advance(HOUR);
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Off)).await;
}

/// As a spot machine of EC2: it is refused before anything is written or asked.
#[tokio::test]
async fn a_machine_that_cannot_be_put_away_stays_and_its_owner_is_told_once() {
    let world = World::new(SimSettings {
        made_with: VerbSet::ALL
            .without(Verb::Stop)
            .without(Verb::ForceStop)
            .without(Verb::Hibernate),
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let mut ids = Vec::new();
    for when_idle in [WhenIdle::Stop, WhenIdle::Hibernate] {
        ids.push(
            manager
                .made(timed(Timers {
                    when_idle,
                    ..idle()
                }))
                .await,
        );
    }
    for id in &ids {
        let refused = manager.machines.ask(id, Verb::Stop).await.unwrap_err();
        let AskError::Refused { source, .. } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(source, RefusedVerb::NotThisOne { verb: Verb::Stop });
    }
    for _ in 0..5 {
        world.clock.advance(HOUR);
        look(&manager).await;
    }
    let events = manager.machines.events_after(0, 1000).await.unwrap();
    for id in &ids {
        assert_eq!(manager.state(id), State::Running);
        let machine = manager.machines.get(id).unwrap();
        assert!(machine.record().failure().unwrap().contains("idle"));
        let own = || events.iter().filter(|event| event.machine == *id);
        let told = own().filter(|event| event.what == Happened::Stays);
        assert_eq!(told.count(), 1);
        let asked = own().filter(|event| matches!(event.what, Happened::Asked { .. }));
        assert_eq!(asked.count(), 0);
    }
    // A policy that says so ends one.
    let ends = Timers {
        when_idle: WhenIdle::Terminate,
        ..idle()
    };
    let id = manager.made(timed(ends)).await;
    world.clock.advance(HOUR);
    look(&manager).await;
    manager.wait(&id, State::Terminated).await;
}

#[tokio::test]
async fn a_machine_that_was_not_made_for_hibernation_is_stopped_when_it_is_idle() {
    let world = World::new(SimSettings {
        made_with: VerbSet::ALL.without(Verb::Hibernate).without(Verb::Resume),
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let timers = Timers {
        when_idle: WhenIdle::Hibernate,
        ..idle()
    };
    let id = manager.made(timed(timers)).await;
    world.clock.advance(HOUR);
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Off)).await;
}

#[tokio::test]
async fn a_machine_that_runs_again_counts_as_reachable() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.made(timed(idle())).await;
    manager.machines.set_reachable(&id, false).await;
    manager.machines.ask(&id, Verb::Stop).await.unwrap();
    manager.wait(&id, State::Stopped(Halt::Off)).await;
    manager.machines.ask(&id, Verb::Start).await.unwrap();
    manager.wait(&id, State::Running).await;
    world.clock.advance(HOUR);
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Off)).await;
}

#[tokio::test]
async fn a_restart_makes_nothing_idle_earlier() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.made(timed(idle())).await;
    world.clock.advance(HOUR - Duration::from_secs(60));
    manager.die().await;
    let manager = world.start().await;
    world.clock.advance(HOUR - Duration::from_secs(60));
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    world.clock.advance(Duration::from_secs(120));
    look(&manager).await;
    manager.wait(&id, State::Stopped(Halt::Off)).await;
}
