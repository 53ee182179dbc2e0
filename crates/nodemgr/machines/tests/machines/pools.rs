//! Warm pools.

use std::time::Duration;

use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Halt, State, Verb};
use muster_machines::{ClaimError, MachineOrder, Pool, Snapshot, WorkKind};
use muster_provider::sim::{SimCapacity, SimSettings};

use crate::rig::{World, eventually, order};

const HOUR: Duration = Duration::from_secs(3600);

fn pool(min_idle: u32, max: Option<u32>) -> Pool {
    Pool {
        size: PoolSize { min_idle, max },
        order: MachineOrder {
            timers: Timers {
                idle: Some(HOUR),
                ..Timers::default()
            },
            ..order()
        },
        configured: false,
    }
}

fn count(all: &Snapshot, state: State) -> usize {
    let records = all.values().map(|machine| machine.record());
    records.filter(|record| record.state() == state).count()
}

fn running(all: &Snapshot) -> usize {
    count(all, State::Running)
}

#[tokio::test]
async fn a_pool_stays_warm_when_machines_are_taken() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    manager
        .machines
        .set_pool("ci", pool(2, Some(3)))
        .await
        .unwrap();
    manager.wait_for(|all| running(all) == 2).await;
    let first = manager.machines.claim("ci", "job 1").await.unwrap();
    manager.wait_for(|all| running(all) == 3).await;
    let second = manager.machines.claim("ci", "job 2").await.unwrap();
    assert_ne!(first, second);
    // The maximum is reached: one idle machine is what there is.
    manager.machines.claim("ci", "job 3").await.unwrap();
    let none = manager.machines.claim("ci", "job 4").await;
    assert_eq!(none, Err(ClaimError::NoneReady("ci".to_owned())));
    assert_eq!(world.cloud.machines().len(), 3);
    manager.machines.release(&first).await.unwrap();
    assert_eq!(manager.machines.claim("ci", "job 4").await, Ok(first));
    let none = manager.machines.claim("no", "job").await;
    assert_eq!(none, Err(ClaimError::Unknown("no".to_owned())));
}

#[tokio::test]
async fn a_stopped_machine_is_started_before_one_is_made_and_warm_ones_do_not_age() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    manager
        .machines
        .set_pool("ci", pool(2, None))
        .await
        .unwrap();
    manager.wait_for(|all| running(all) == 2).await;
    world.clock.advance(10 * HOUR);
    let _ = manager.machines.find_orphans().await.unwrap();
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(running(&manager.machines.all()), 2);
    // Fewer are wanted: what is too many goes idle and is stopped.
    manager
        .machines
        .set_pool("ci", pool(1, None))
        .await
        .unwrap();
    let _ = manager.machines.find_orphans().await.unwrap();
    world.clock.advance(2 * HOUR);
    manager
        .wait_for(|all| count(all, State::Stopped(Halt::Off)) == 1)
        .await;
    manager
        .machines
        .set_pool("ci", pool(2, None))
        .await
        .unwrap();
    manager.wait_for(|all| running(all) == 2).await;
    assert_eq!(manager.machines.all().len(), 2);
}

#[tokio::test]
async fn a_pool_survives_a_restart_and_makes_nothing_twice() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    manager
        .machines
        .set_pool("ci", pool(3, None))
        .await
        .unwrap();
    manager.die().await;
    let manager = world.start().await;
    manager.wait_for(|all| running(all) == 3).await;
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(world.cloud.machines().len(), 3);
    assert_eq!(manager.machines.pools().await.unwrap().len(), 1);
    manager.machines.remove_pool("ci").await.unwrap();
    assert!(manager.machines.remove_pool("ci").await.is_err());
    world.clock.advance(2 * HOUR);
    manager
        .wait_for(|all| count(all, State::Stopped(Halt::Off)) == 3)
        .await;
}

#[tokio::test]
async fn a_pool_that_finds_no_capacity_does_not_hammer_its_provider() {
    let capacity = |on_demand| SimSettings {
        capacity: SimCapacity {
            on_demand: Some(on_demand),
            ..SimCapacity::default()
        },
        ..SimSettings::default()
    };
    let world = World::new(capacity(1));
    let settings = muster_machines::Settings {
        retry: HOUR,
        retry_longest: HOUR,
        ..crate::rig::quick()
    };
    let manager = world.start_with(settings).await;
    manager
        .machines
        .set_pool("ci", pool(3, None))
        .await
        .unwrap();
    manager
        .wait_for(|all| count(all, State::Terminated) == 2 && running(all) == 1)
        .await;
    for _ in 0..5 {
        let _ = manager.machines.find_orphans().await.unwrap();
    }
    assert_eq!(manager.machines.all().len(), 3, "no new order for an hour");
    world.cloud.set(capacity(3));
    world.clock.advance(HOUR);
    manager.wait_for(|all| running(all) == 3).await;
}

#[tokio::test]
async fn a_machine_at_work_is_not_given_away() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    manager
        .machines
        .set_pool("ci", pool(1, Some(1)))
        .await
        .unwrap();
    manager.wait_for(|all| running(all) == 1).await;
    let id = manager.machines.all().keys().next().unwrap().clone();
    let work = manager.machines.begin_work(&id, WorkKind::Session).unwrap();
    assert!(manager.machines.claim("ci", "job").await.is_err());
    drop(work);
    assert_eq!(manager.machines.claim("ci", "job").await.unwrap(), id);
}

#[tokio::test]
async fn a_machine_that_is_lost_is_replaced() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    manager
        .machines
        .set_pool("ci", pool(1, Some(1)))
        .await
        .unwrap();
    manager.wait_for(|all| running(all) == 1).await;
    let id = manager.machines.all().keys().next().unwrap().clone();
    manager.machines.ask(&id, Verb::Terminate).await.unwrap();
    manager
        .wait_for(|all| running(all) == 1 && count(all, State::Terminated) == 1)
        .await;
    eventually(|| world.cloud.machines().len() == 1).await;
}
