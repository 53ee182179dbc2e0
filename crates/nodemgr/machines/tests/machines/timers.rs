//! Timers, and what holds them.

use std::time::Duration;

use muster_lifecycle::timers::{Timers, WhenIdle};
use muster_lifecycle::{Halt, Reason, State};
use muster_machines::{MachineOrder, WorkKind};
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
    manager.machines.heartbeat(&id, 200 * HOUR).unwrap();
    world.clock.advance(100 * HOUR);
    look(&manager).await;
    assert_eq!(manager.state(&id), State::Running);
    world.clock.advance(101 * HOUR);
    look(&manager).await;
    manager.wait(&id, State::Terminated).await;
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
