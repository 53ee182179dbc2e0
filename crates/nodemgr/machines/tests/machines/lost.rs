//! Machines that cannot be seen, and those that are seen again.

use muster_lifecycle::{Reason, State, Verb};
use muster_machines::{Happened, Record};
use muster_provider::sim::SimSettings;
use muster_provider::{MachineId, Owned, Provider as _, ResourceId};
use std::sync::Arc;
use std::time::Duration;

use crate::rig::{MANAGER, Manager, World, eventually, in_time};

fn record(manager: &Manager, id: &MachineId) -> Arc<Record> {
    Arc::clone(manager.machines.get(id).unwrap().record())
}

fn resource(manager: &Manager, id: &MachineId) -> ResourceId {
    record(manager, id).made().unwrap().resource.clone()
}

fn account(account: u32) -> SimSettings {
    SimSettings {
        account,
        ..SimSettings::default()
    }
}

async fn happened(manager: &Manager, id: &MachineId, what: impl Fn(&Happened) -> bool) -> usize {
    let events = in_time(manager.machines.events_after(0, 10_000))
        .await
        .unwrap();
    let own = events.iter().filter(|event| event.machine == *id);
    own.filter(|event| what(&event.what)).count()
}

/// An engine that came up before its disk was mounted, say.
#[tokio::test]
async fn a_machine_that_was_out_of_sight_is_taken_back_and_not_destroyed() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let was = record(&manager, &id);
    let resource = resource(&manager, &id);
    world.cloud.hide(&resource, true);
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Outside));
    assert_eq!(world.cloud.machines().len(), 1);

    world.cloud.hide(&resource, false);
    let back = manager.wait(&id, State::Running).await;
    let (was, made) = (was.made().unwrap(), back.made().unwrap());
    assert_eq!((&made.resource, made.at), (&was.resource, was.at));
    assert_eq!(world.cloud.machines()[0].state, State::Running);
    let told = |what: &Happened| matches!(what, Happened::Back { .. });
    assert_eq!(happened(&manager, &id, told).await, 1);
    // It can be used, and goes when somebody wants it to.
    manager.machines.destroy(&id).await.unwrap();
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Asked));
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn a_machine_that_was_to_end_goes_when_it_is_seen_again() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let resource = resource(&manager, &id);
    world.cloud.hide(&resource, true);
    manager.machines.destroy(&id).await.unwrap();
    manager.wait(&id, State::Terminated).await;
    assert_eq!(world.cloud.machines().len(), 1);
    world.cloud.hide(&resource, false);
    eventually(|| world.cloud.machines().is_empty()).await;
    assert_eq!(record(&manager, &id).end(), Some(Reason::Asked));
}

/// Nobody knows that it is the machine of its record: an operator may collect it, and nothing does so by itself.
#[tokio::test]
async fn a_second_machine_with_the_mark_of_a_lost_one_is_left_to_the_collection() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let resource = resource(&manager, &id);
    world.cloud.hide(&resource, true);
    let gone = manager.wait(&id, State::Terminated).await;
    let mark = gone.mark(&MANAGER.parse().unwrap());
    let second = world.cloud.duplicate(&mark).unwrap();
    let found = in_time(manager.machines.find_orphans()).await.unwrap();
    let found: Vec<_> = found
        .orphans
        .iter()
        .map(|it| (&it.resource, it.reason))
        .collect();
    assert_eq!(found, [(&second, Reason::Orphan)]);
    assert_eq!(manager.state(&id), State::Terminated);
    assert_eq!(world.cloud.machines().len(), 2);
}

/// The manager was started with the credentials of somebody else, say.
#[tokio::test]
async fn what_another_account_does_not_know_is_not_gone() {
    let world = World::new(account(1));
    let manager = world.start().await;
    let id = manager.running().await;
    let resource = resource(&manager, &id);
    // Who has it is written down with the first list that shows it.
    manager
        .wait_for(|all| all[&id].record().made().unwrap().home.is_some())
        .await;
    manager.die().await;

    world.cloud.set(account(2));
    world.cloud.hide(&resource, true);
    let manager = world.start().await;
    let says_why = |all: &Arc<muster_machines::Snapshot>| {
        let record = all[&id].record();
        record
            .failure()
            .is_some_and(|why| why.contains("sim-2 answers for sim now, and sim-1 has"))
    };
    manager.wait_for(says_why).await;
    assert_eq!(manager.state(&id), State::Running);
    // It is told once, however often it is looked for.
    let before = world.cloud.calls();
    eventually(|| world.cloud.calls() > before + 10).await;
    let failed = |what: &Happened| matches!(what, Happened::Failed { .. });
    assert_eq!(happened(&manager, &id, failed).await, 1);
    assert_eq!(manager.state(&id), State::Running);

    world.cloud.set(account(1));
    world.cloud.hide(&resource, false);
    manager
        .wait_for(|all| all[&id].record().failure().is_none())
        .await;
    // Where the one who has it says that it is not there, it is gone.
    world.cloud.hide(&resource, true);
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Outside));
}

/// Its destruction was begun, and whoever began it has died.
#[tokio::test]
async fn an_orphan_that_got_stuck_on_its_way_out_is_collected_too() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let owned: Owned = record(&manager, &id)
        .owned(&MANAGER.parse().unwrap())
        .unwrap();
    manager.die().await;
    world.lose_database();
    world.cloud.set(SimSettings {
        halt: Duration::from_secs(36_000),
        ..SimSettings::default()
    });
    world
        .cloud
        .provider()
        .act(&owned, Verb::Terminate)
        .await
        .unwrap();
    let manager = world.start().await;
    for _ in 0..2 {
        let found = in_time(manager.machines.find_orphans()).await.unwrap();
        let states: Vec<State> = found.orphans.iter().map(|it| it.state).collect();
        assert_eq!(states, [State::ShuttingDown]);
        let collected = in_time(manager.machines.collect_orphans()).await.unwrap();
        assert_eq!(collected.orphans.len(), 1);
    }
}
