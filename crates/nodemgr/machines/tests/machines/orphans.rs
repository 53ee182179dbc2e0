//! What bears our mark and nobody knows, and what is not ours.

use muster_lifecycle::{Reason, State};
use muster_provider::sim::SimSettings;
use muster_provider::{ClientToken, MachineId, MachineSpec, ManagerId, Mark, Order, Provider};

use crate::rig::{MANAGER, World, eventually, in_time};

fn mark(manager: &str) -> Mark {
    Mark {
        manager: ManagerId::new(manager).unwrap(),
        machine: MachineId::random(),
        token: ClientToken::random(),
    }
}

async fn make(world: &World, mark: Mark) {
    let order = Order {
        spec: MachineSpec::default(),
        mark,
        purchase: Default::default(),
        ssh: None,
    };
    world.cloud.provider().provision(&order).await.unwrap();
}

#[tokio::test]
async fn orphans_are_found_and_collected_and_nothing_else_is_touched() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let known = manager.running().await;
    let orphan = mark(MANAGER);
    make(&world, orphan.clone()).await;
    make(&world, mark("another")).await;
    world.cloud.add_foreign().unwrap();

    let found = in_time(manager.machines.find_orphans())
        .await
        .unwrap()
        .orphans;
    let marks: Vec<&Mark> = found.iter().map(|it| &it.mark).collect();
    assert_eq!(marks, [&orphan]);
    assert_eq!(found[0].reason, Reason::Orphan);
    assert_eq!(world.cloud.machines().len(), 4, "looking changes nothing");

    let collected = in_time(manager.machines.collect_orphans()).await.unwrap();
    assert_eq!(collected.orphans.len(), 1);
    let left: Vec<_> = world
        .cloud
        .machines()
        .into_iter()
        .map(|it| it.mark)
        .collect();
    assert_eq!(left.len(), 3);
    assert!(!left.contains(&Some(orphan)));
    assert_eq!(manager.state(&known), State::Running);
    let none = in_time(manager.machines.collect_orphans()).await.unwrap();
    assert!(none.orphans.is_empty() && none.failures.is_empty());
}

#[tokio::test]
async fn a_manager_that_lost_its_database_finds_its_machines_by_their_mark() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    for _ in 0..3 {
        manager.running().await;
    }
    manager.die().await;
    world.lose_database();
    let manager = world.start().await;
    let found = in_time(manager.machines.find_orphans())
        .await
        .unwrap()
        .orphans;
    assert_eq!(found.len(), 3);
    let _ = in_time(manager.machines.collect_orphans()).await.unwrap();
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn what_is_there_twice_or_should_be_gone_goes_by_itself() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let kept = manager.running().await;
    let gone = manager.running().await;
    manager.machines.destroy(&gone).await.unwrap();
    manager.wait(&gone, State::Terminated).await;
    let manager_id = ManagerId::new(MANAGER).unwrap();
    let resource = |id: &MachineId| {
        let machine = manager.machines.get(id).unwrap();
        let made = machine.record().made().map(|made| made.resource.clone());
        (machine.record().mark(&manager_id), made)
    };
    let (of_kept, first) = resource(&kept);
    let (of_gone, _) = resource(&gone);
    // A cloud that forgets tokens, such as one that was restored from a backup.
    world.cloud.duplicate(&of_kept).unwrap();
    world.cloud.duplicate(&of_gone).unwrap();
    assert_eq!(world.cloud.machines().len(), 3);
    eventually(|| world.cloud.machines().len() == 1).await;
    let left = world.cloud.machines().remove(0);
    assert_eq!(Some(left.resource), first);
    assert_eq!(manager.state(&kept), State::Running);
}
