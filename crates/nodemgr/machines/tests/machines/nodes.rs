//! Machines that are nodes of a Unit.

use std::time::Duration;

use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Halt, Reason, State, Verb};
use muster_machines::{AskError, ClaimError, Happened, MachineOrder, Pool, Settings};
use muster_provider::sim::SimSettings;

use crate::rig::{World, order, quick};

const HOUR: Duration = Duration::from_secs(3600);
const UNIT: &str = "/units/one/join.json";

fn put_away_soon() -> MachineOrder {
    MachineOrder {
        timers: Timers {
            idle: Some(HOUR),
            stopped: Some(HOUR),
            ..Timers::default()
        },
        ..order()
    }
}

fn unit() -> Option<String> {
    Some(UNIT.to_owned())
}

#[tokio::test]
async fn a_node_is_not_put_away_until_it_has_left_its_unit() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.made(put_away_soon()).await;
    manager.machines.set_unit(&id, unit()).await.unwrap();
    world.clock.advance(100 * HOUR);
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(manager.state(&id), State::Running);
    // It is remembered over a restart.
    manager.die().await;
    let manager = world.start().await;
    world.clock.advance(100 * HOUR);
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(manager.state(&id), State::Running);
    // Nor is it destroyed because somebody stopped it.
    manager.machines.ask(&id, Verb::Stop).await.unwrap();
    let stopped = State::Stopped(Halt::Off);
    manager.wait(&id, stopped).await;
    world.clock.advance(100 * HOUR);
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(manager.state(&id), stopped);
    manager.machines.set_unit(&id, None).await.unwrap();
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::StoppedLong));
}

#[tokio::test]
async fn a_node_of_a_pool_is_given_to_nobody_and_another_takes_its_place() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let size = PoolSize {
        min_idle: 1,
        max: Some(2),
    };
    let pool = Pool {
        size,
        order: order(),
        others: Vec::new(),
        configured: false,
    };
    manager.machines.set_pool("ci", pool).await.unwrap();
    let ready = |all: &muster_machines::Snapshot| {
        let running = all.values().filter(|it| {
            let record = it.record();
            record.state() == State::Running && record.unit.is_none()
        });
        running.count()
    };
    manager.wait_for(|all| ready(all) == 1).await;
    let node = manager.machines.all().keys().next().unwrap().clone();
    manager.machines.set_unit(&node, unit()).await.unwrap();
    manager
        .wait_for(|all| all.len() == 2 && ready(all) == 1)
        .await;
    let other = manager.machines.claim("ci", "job").await.unwrap();
    assert_ne!(other, node);
    let none = manager.machines.claim("ci", "job").await;
    assert_eq!(none, Err(ClaimError::NoneReady("ci".to_owned())));
}

#[tokio::test]
async fn a_node_whose_machine_ended_is_remembered_until_its_unit_has_let_it_go() {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        remember: Duration::from_millis(5),
        ..quick()
    };
    let manager = world.start_with(settings.clone()).await;
    let short = MachineOrder {
        timers: Timers {
            lifetime: Some(HOUR),
            ..Timers::default()
        },
        ..order()
    };
    let id = manager.made(short).await;
    manager.machines.set_unit(&id, unit()).await.unwrap();
    world.clock.advance(2 * HOUR);
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Lifetime));
    let events = manager.machines.events_after(0, 100).await.unwrap();
    let stays = Happened::NodeStays {
        unit: UNIT.to_owned(),
    };
    assert_eq!(events.last().map(|it| &it.what), Some(&stays));
    world.clock.advance(HOUR);
    manager.die().await;
    let manager = world.start_with(settings).await;
    // Something that comes after the moment at which it would have been forgotten.
    let other = manager.running().await;
    let kept = manager.machines.get(&id).unwrap();
    assert_eq!(kept.record().unit, unit());
    let refused = manager.machines.set_unit(&id, Some("/other".to_owned()));
    assert_eq!(refused.await, Err(AskError::Ending(id.clone())));
    manager.machines.set_unit(&id, None).await.unwrap();
    manager.wait_for(|all| !all.contains_key(&id)).await;
    assert_eq!(manager.state(&other), State::Running);
}
