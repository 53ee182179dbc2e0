//! Managers that end in the middle.

use std::time::Duration;

use muster_lifecycle::{Halt, Reason, State, Verb};
use muster_machines::Settings;
use muster_provider::MachineId;
use muster_provider::sim::{SimFaults, SimSettings};

use crate::rig::{World, eventually, order, quick};

fn slow() -> SimSettings {
    SimSettings {
        latency: Duration::from_millis(30)..=Duration::from_millis(30),
        ..SimSettings::default()
    }
}

#[tokio::test]
async fn an_order_is_carried_on_by_the_next_manager_and_made_once() {
    let world = World::new(slow());
    let manager = world.start().await;
    let id = manager.machines.order(order()).await.unwrap();
    manager.die().await;
    let manager = world.start().await;
    manager.wait(&id, State::Running).await;
    assert_eq!(world.cloud.machines().len(), 1);
}

/// Orders a machine that the cloud makes, from a manager that dies without having heard so: it knows nothing but the order.
async fn ordered_and_unheard(world: &World) -> MachineId {
    let lost = SimFaults {
        lose_answer: 1000,
        ..SimFaults::default()
    };
    world.cloud.set(SimSettings {
        faults: lost,
        ..SimSettings::default()
    });
    let settings = Settings {
        retry: Duration::from_secs(36_000),
        retry_longest: Duration::from_secs(36_000),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let id = manager.machines.order(order()).await.unwrap();
    eventually(|| world.cloud.machines().len() == 1).await;
    manager.die().await;
    world.cloud.set(SimSettings::default());
    id
}

#[tokio::test]
async fn a_machine_whose_answer_nobody_heard_is_adopted() {
    let world = World::new(SimSettings::default());
    let id = ordered_and_unheard(&world).await;
    let made = world.cloud.machines()[0].resource.clone();
    let manager = world.start().await;
    let record = manager.wait(&id, State::Running).await;
    assert_eq!(record.made().unwrap().resource, made);
    assert_eq!(world.cloud.machines().len(), 1);
}

#[tokio::test]
async fn what_was_made_of_an_order_that_nobody_waits_for_is_destroyed() {
    let world = World::new(SimSettings::default());
    let id = ordered_and_unheard(&world).await;
    world.clock.advance(quick().carry_on);
    let manager = world.start().await;
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Abandoned));
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn verbs_and_ends_are_carried_on() {
    let world = World::new(slow());
    let manager = world.start().await;
    let (stops, ends) = (manager.running().await, manager.running().await);
    manager.machines.ask(&stops, Verb::Stop).await.unwrap();
    manager.machines.destroy(&ends).await.unwrap();
    manager.die().await;
    let manager = world.start().await;
    manager.wait(&stops, State::Stopped(Halt::Off)).await;
    manager.wait(&ends, State::Terminated).await;
    assert_eq!(world.cloud.machines().len(), 1);
}

#[tokio::test]
async fn what_happened_while_no_manager_was_there_is_seen() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let machine = manager.machines.get(&id).unwrap();
    let owned = machine
        .record()
        .owned(&crate::rig::MANAGER.parse().unwrap())
        .unwrap();
    manager.die().await;
    let provider = world.cloud.provider();
    muster_provider::Provider::destroy(&provider, &owned)
        .await
        .unwrap();
    let manager = world.start().await;
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Outside));
}
