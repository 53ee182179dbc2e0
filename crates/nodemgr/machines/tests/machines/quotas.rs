//! How much of a provider may be used.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use muster_lifecycle::State;
use muster_lifecycle::pool::PoolSize;
use muster_machines::{MachineOrder, OrderError, Pool, Settings};
use muster_provider::sim::SimSettings;
use muster_provider::{MachineSpec, ProviderId, Quota};

use crate::rig::{World, order, quick};

fn limited(quota: Quota) -> Settings {
    Settings {
        quotas: BTreeMap::from([(ProviderId::Sim, quota)]),
        ..quick()
    }
}

#[tokio::test]
async fn orders_that_come_at_once_do_not_pass_a_quota_together() {
    let world = World::new(SimSettings::default());
    let quota = Quota {
        machines: None,
        cpus: Some(7),
        memory_mb: None,
    };
    let manager = world.start_with(limited(quota)).await;
    let two_cpus = MachineOrder {
        spec: MachineSpec {
            cpus: std::num::NonZeroU32::new(2),
            ..MachineSpec::default()
        },
        ..order()
    };
    let orders = (0..10).map(|_| manager.machines.order(two_cpus.clone()));
    let taken = join_all(orders).await;
    let refused = OrderError::Quota {
        provider: ProviderId::Sim,
        used: "6 of 7 cpus".to_owned(),
    };
    let ids: Vec<_> = taken.iter().filter_map(|it| it.as_ref().ok()).collect();
    assert_eq!(ids.len(), 3, "{taken:?}");
    assert_eq!(taken.iter().filter_map(|it| it.as_ref().err()).count(), 7);
    assert!(taken.contains(&Err(refused)), "{taken:?}");
    // One that is gone has given its room back.
    manager.machines.destroy(ids[0]).await.unwrap();
    manager.wait(ids[0], State::Terminated).await;
    assert!(manager.machines.order(two_cpus).await.is_ok());
}

#[tokio::test]
async fn a_pool_does_not_pass_a_quota_and_grows_when_there_is_room() {
    let world = World::new(SimSettings::default());
    let quota = Quota {
        machines: Some(3),
        ..Quota::default()
    };
    let manager = world.start_with(limited(quota)).await;
    let by_hand = manager.running().await;
    let pool = Pool {
        size: PoolSize {
            min_idle: 5,
            max: None,
        },
        order: order(),
        others: Vec::new(),
        configured: false,
    };
    manager.machines.set_pool("ci", pool).await.unwrap();
    manager
        .wait_for(|all| {
            let mut records = all.values().map(|it| it.record());
            all.len() == 3 && records.all(|record| record.state() == State::Running)
        })
        .await;
    for _ in 0..5 {
        let _ = manager.machines.find_orphans().await.unwrap();
    }
    assert_eq!(world.cloud.machines().len(), 3);
    manager.machines.destroy(&by_hand).await.unwrap();
    manager
        .wait_for(|all| {
            let alive = all.values().filter(|it| {
                let record = it.record();
                record.pool.is_some() && record.state() == State::Running
            });
            alive.count() == 3
        })
        .await;
}
