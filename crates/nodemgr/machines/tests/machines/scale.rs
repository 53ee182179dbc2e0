//! Many machines at once.

use futures_util::future::join_all;
use muster_lifecycle::State;
use muster_machines::Settings;
use muster_provider::sim::SimSettings;

use crate::rig::{World, order, quick};

const MANY: usize = 1000;
/// What one machine may cost in memory, of the registry and of the simulated cloud together.
const KIB_EACH: usize = 30;

/// What this process has in memory. The harness runs each test in a process of its own.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_machines_are_made_and_destroyed_at_once() {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        poll: std::time::Duration::from_millis(50),
        sweep: std::time::Duration::from_secs(60),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let before = resident_kib();
    // At once, so that they share what is written down.
    let orders = join_all((0..MANY).map(|_| manager.machines.order(order()))).await;
    let ids: Vec<_> = orders.into_iter().map(Result::unwrap).collect();
    manager
        .wait_for(|all| {
            all.values()
                .all(|machine| machine.record().state() == State::Running)
        })
        .await;
    assert_eq!(world.cloud.machines().len(), MANY);
    let each = resident_kib().saturating_sub(before) / MANY;
    println!("{MANY} machines: {each} KiB each (target {KIB_EACH} KiB)");
    assert!(each <= KIB_EACH, "{each} KiB each");
    for asked in join_all(ids.iter().map(|id| manager.machines.destroy(id))).await {
        asked.unwrap();
    }
    manager
        .wait_for(|all| {
            all.values()
                .all(|machine| machine.record().state() == State::Terminated)
        })
        .await;
    assert!(world.cloud.machines().is_empty());
}
