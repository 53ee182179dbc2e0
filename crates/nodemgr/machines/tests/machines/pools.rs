//! Warm pools.

use std::time::Duration;

use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Halt, Reason, State, Verb};
use muster_machines::{ClaimError, Contact, MachineOrder, Pool, Snapshot, WorkKind};
use muster_provider::sim::{SimCapacity, SimSettings};
use muster_provider::{Capability, Means, Purchase, Transport};

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
        others: Vec::new(),
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
async fn a_pool_that_finds_no_capacity_is_filled_elsewhere_and_goes_back_to_what_is_best() {
    let world = World::new(SimSettings {
        capacity: SimCapacity {
            on_demand: Some(1),
            ..SimCapacity::default()
        },
        ..SimSettings::default()
    });
    let settings = muster_machines::Settings {
        retry: HOUR,
        retry_longest: HOUR,
        ..crate::rig::quick()
    };
    let manager = world.start_with(settings).await;
    let mut first = pool(2, None);
    first.order.timers = Timers::default();
    let spot = MachineOrder {
        purchase: Purchase::Spot {
            types: Vec::new(),
            fallback: false,
        },
        ..first.order.clone()
    };
    let both = Pool {
        others: vec![spot],
        ..first
    };
    manager.machines.set_pool("ci", both).await.unwrap();
    manager.wait_for(|all| running(all) == 2).await;
    let spots = |all: &Snapshot| {
        let made = all.values().filter_map(|it| it.record().made().cloned());
        made.filter(|made| made.spot && made.life.state() == State::Running)
            .count()
    };
    assert_eq!(spots(&manager.machines.all()), 1);
    // There is capacity again, and after a while that is seen.
    world.cloud.set(SimSettings::default());
    manager.machines.claim("ci", "job").await.unwrap();
    manager.wait_for(|all| running(all) == 3).await;
    assert_eq!(spots(&manager.machines.all()), 2);
    world.clock.advance(2 * HOUR);
    manager.machines.claim("ci", "job").await.unwrap();
    manager.wait_for(|all| running(all) == 4).await;
    assert_eq!(spots(&manager.machines.all()), 2);
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

/// A cloud whose machines one can get into.
fn entered() -> SimSettings {
    let exec = Capability::new(Transport::Ssh, Means::Exec);
    SimSettings {
        access: [exec].into_iter().collect(),
        ..SimSettings::default()
    }
}

#[tokio::test]
async fn a_member_is_given_away_once_it_has_answered() {
    let world = World::new(entered());
    let manager = world.start().await;
    let machines = &manager.machines;
    machines.set_pool("ci", pool(1, Some(1))).await.unwrap();
    manager.wait_for(|all| running(all) == 1).await;
    let id = machines.all().keys().next().unwrap().clone();
    assert!(!machines.get(&id).unwrap().is_ready());
    let none = Err(ClaimError::NoneReady("ci".to_owned()));
    assert_eq!(machines.claim("ci", "job").await, none);
    machines.set_reachable(&id, true).await;
    // Whoever waits for one sees that it is ready.
    manager.wait_for(|all| all[&id].is_ready()).await;
    assert_eq!(machines.claim("ci", "job").await, Ok(id.clone()));
    machines.release(&id).await.unwrap();
    // What runs anew has not answered yet.
    for verb in [Verb::Reboot, Verb::Stop] {
        machines.set_reachable(&id, true).await;
        manager.wait_for(|all| all[&id].is_ready()).await;
        machines.ask(&id, verb).await.unwrap();
        manager
            .wait_for(|all| {
                let record = all[&id].record();
                let made = record.made().unwrap();
                record.state() == State::Running && made.life.task().is_none()
            })
            .await;
        let contact = machines.get(&id).unwrap().contact();
        assert_eq!(contact, Contact::Untried, "{verb}");
    }
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_replaced_and_goes_unless_somebody_has_used_it() {
    let world = World::new(entered());
    let settings = muster_machines::Settings {
        silence: 10 * HOUR,
        ..crate::rig::quick()
    };
    let manager = world.start_with(settings.clone()).await;
    let machines = &manager.machines;
    machines.set_pool("ci", pool(1, None)).await.unwrap();
    manager.wait_for(|all| running(all) == 1).await;
    let used = machines.all().keys().next().unwrap().clone();
    drop(machines.begin_work(&used, WorkKind::Session).unwrap());
    manager.wait_for(|all| !all[&used].record().untouched).await;
    machines.set_reachable(&used, false).await;
    manager.wait_for(|all| running(all) == 2).await;
    let all = machines.all();
    let unused = all.keys().find(|id| **id != used).unwrap().clone();
    drop(all);
    machines.set_reachable(&unused, false).await;
    let _ = machines.find_orphans().await.unwrap();
    // No more than that are made in the place of those that do not answer.
    assert_eq!(world.cloud.machines().len(), 2);
    world.clock.advance(9 * HOUR);
    let _ = machines.find_orphans().await.unwrap();
    assert_eq!(running(&machines.all()), 2);
    world.clock.advance(2 * HOUR);
    let gone = manager.wait(&unused, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Silent));
    // Its place is free for another, and what somebody may need stays.
    manager.wait_for(|all| running(all) == 2).await;
    assert_eq!(manager.state(&used), State::Running);

    // A manager that starts anew has tried none of them, and knows who was used.
    manager.die().await;
    let manager = world.start_with(settings).await;
    let used_one = manager.machines.get(&used).unwrap();
    assert_eq!(used_one.contact(), Contact::Untried);
    assert!(!used_one.record().untouched);
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

#[tokio::test]
async fn a_pool_that_is_changed_lets_go_of_what_it_makes_no_more() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let machines = &manager.machines;
    machines.set_pool("ci", pool(3, None)).await.unwrap();
    manager.wait_for(|all| running(all) == 3).await;
    let taken = machines.claim("ci", "job 1").await.unwrap();
    manager.wait_for(|all| running(all) == 4).await;
    let all = machines.all();
    let used = all.keys().find(|&id| *id != taken).unwrap().clone();
    // Somebody was on it, though it was given to nobody.
    drop(machines.begin_work(&used, WorkKind::Session).unwrap());
    manager.wait_for(|all| !all[&used].record().untouched).await;
    let mut changed = pool(2, None);
    changed.order.template = "other".to_owned();
    machines.set_pool("ci", changed).await.unwrap();
    let of_template = |all: &Snapshot, template: &str| {
        let records = all.values().map(|machine| machine.record());
        let up = records.filter(|it| it.state() == State::Running);
        up.filter(|it| it.order.template == template).count()
    };
    manager
        .wait_for(|all| of_template(all, "other") == 2 && of_template(all, "test") == 2)
        .await;
    let replaced = |all: &Snapshot| {
        let ends = all.values().map(|machine| machine.record().end());
        ends.filter(|it| *it == Some(Reason::Replaced)).count()
    };
    assert_eq!(replaced(&machines.all()), 2, "nobody ever used them");
    let pool_of = |id| machines.get(id).unwrap().record().pool.clone();
    assert_eq!(pool_of(&used), None);
    assert_eq!(
        pool_of(&taken).as_deref(),
        Some("ci"),
        "it is not disturbed"
    );
    let given = machines.claim("ci", "job 2").await.unwrap();
    let given = machines.get(&given).unwrap();
    assert_eq!(given.record().order.template, "other");
    // What is given back leaves the pool, and everything that has left it ages.
    machines.release(&taken).await.unwrap();
    manager
        .wait_for(|all| all[&taken].record().pool.is_none())
        .await;
    world.clock.advance(2 * HOUR);
    for id in [&used, &taken] {
        manager.wait(id, State::Stopped(Halt::Off)).await;
    }
}
