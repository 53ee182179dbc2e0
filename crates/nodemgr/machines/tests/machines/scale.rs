//! Many machines at once.

use muster_lifecycle::State;
use muster_machines::Settings;
use muster_provider::sim::SimSettings;

use crate::rig::{World, order, quick};

const MANY: usize = 1000;

#[tokio::test]
async fn a_thousand_machines_are_made_and_destroyed_at_once() {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        poll: std::time::Duration::from_millis(50),
        sweep: std::time::Duration::from_secs(60),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let mut ids = Vec::new();
    for _ in 0..MANY {
        ids.push(manager.machines.order(order()).await.unwrap());
    }
    manager
        .wait_for(|all| {
            all.values()
                .all(|machine| machine.record().state() == State::Running)
        })
        .await;
    assert_eq!(world.cloud.machines().len(), MANY);
    for id in &ids {
        manager.machines.destroy(id).await.unwrap();
    }
    manager
        .wait_for(|all| {
            all.values()
                .all(|machine| machine.record().state() == State::Terminated)
        })
        .await;
    assert!(world.cloud.machines().is_empty());
}
