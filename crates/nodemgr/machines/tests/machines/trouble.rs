//! Providers that fail.

use std::time::Duration;

use muster_lifecycle::{Halt, Reason, State, Verb};
use muster_machines::{Happened, MachineOrder, ProvisionError, Settings};
use muster_provider::sim::{SimCapacity, SimFaults, SimSettings};
use muster_provider::{FailureClass, Purchase};

use crate::rig::{World, eventually, in_time, order, quick};

fn failing(faults: SimFaults) -> SimSettings {
    SimSettings {
        faults,
        ..SimSettings::default()
    }
}

#[tokio::test]
async fn failures_that_pass_are_tried_again_and_make_one_machine() {
    let faults = SimFaults {
        fail: 200,
        lose_answer: 200,
        ..SimFaults::default()
    };
    let world = World::new(failing(faults));
    let settings = Settings {
        attempts: 1000,
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(manager.running().await);
    }
    assert_eq!(world.cloud.machines().len(), 20);
    for id in &ids {
        manager.machines.destroy(id).await.unwrap();
    }
    for id in &ids {
        manager.wait(id, State::Terminated).await;
    }
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn no_capacity_is_an_answer_and_says_why() {
    let capacity = SimCapacity {
        on_demand: Some(0),
        ..SimCapacity::default()
    };
    let world = World::new(SimSettings {
        capacity,
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let calls = world.cloud.calls();
    let failed = in_time(manager.machines.provision(order())).await;
    let Err(ProvisionError::Gone {
        reason, failure, ..
    }) = failed
    else {
        panic!("{failed:?}")
    };
    assert_eq!(reason, Reason::NotMade);
    let failure = failure.unwrap();
    assert!(failure.contains("no capacity"), "{failure}");
    assert!(failure.contains("in use"), "{failure}");
    // Asked once: the same order would get the same answer.
    assert!(world.cloud.calls() - calls < 10);
}

#[tokio::test]
async fn an_order_that_is_given_up_after_lost_answers_is_found_and_destroyed() {
    let faults = SimFaults {
        lose_answer: 1000,
        ..SimFaults::default()
    };
    let world = World::new(failing(faults));
    let manager = world.start().await;
    let id = manager.machines.order(order()).await.unwrap();
    manager
        .wait_for(|all| all[&id].record().end() == Some(Reason::NotMade))
        .await;
    assert_eq!(world.cloud.machines().len(), 1);
    world.cloud.set(SimSettings::default());
    manager.wait(&id, State::Terminated).await;
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn a_provider_that_does_not_answer_loses_no_machine() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let faults = SimFaults {
        fail: 1000,
        ..SimFaults::default()
    };
    world.cloud.set(failing(faults));
    let calls = world.cloud.calls();
    eventually(|| world.cloud.calls() > calls + 5).await;
    assert_eq!(manager.state(&id), State::Running);
    world.cloud.set(SimSettings::default());
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(manager.state(&id), State::Running);
}

#[tokio::test]
async fn a_verb_that_cannot_be_done_is_given_up_and_told() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let mut events = manager.machines.events().unwrap();
    let faults = SimFaults {
        fail: 1000,
        ..SimFaults::default()
    };
    world.cloud.set(failing(faults));
    manager.machines.ask(&id, Verb::Stop).await.unwrap();
    let mut failures = 0;
    in_time(async {
        loop {
            match events.recv().await.unwrap().what {
                Happened::NotDone { verb } => {
                    assert_eq!(verb, Verb::Stop);
                    break;
                }
                Happened::Failed { class, .. } => {
                    assert_eq!(class, FailureClass::Retryable);
                    failures += 1;
                }
                _ => {}
            }
        }
    })
    .await;
    assert_eq!(failures, quick().attempts);
    assert_eq!(manager.state(&id), State::Running);
}

#[tokio::test]
async fn a_system_that_ignores_a_stop_is_switched_off_after_its_grace() {
    let world = World::new(SimSettings {
        ignore_stop: true,
        ..SimSettings::default()
    });
    let settings = Settings {
        stop_grace: Duration::from_secs(60),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let id = manager.running().await;
    manager.machines.ask(&id, Verb::Stop).await.unwrap();
    manager.wait(&id, State::Stopping(Halt::Off)).await;
    world.clock.advance(Duration::from_secs(61));
    let _ = manager.machines.find_orphans().await.unwrap();
    manager.wait(&id, State::Stopped(Halt::Off)).await;
    let events = manager.machines.events_after(0, 100).await.unwrap();
    let verb = Verb::ForceStop;
    let reason = Reason::Asked;
    assert!(
        events
            .iter()
            .any(|event| event.what == Happened::Asked { verb, reason })
    );
}

#[tokio::test]
async fn a_stop_that_is_answered_when_it_is_done_may_take_its_grace() {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        call: Duration::from_millis(200),
        stop_grace: Duration::from_secs(60),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let id = manager.running().await;
    let mut events = manager.machines.events().unwrap();
    let slow = Duration::from_millis(600);
    for verb in [Verb::Reboot, Verb::Stop] {
        world.cloud.set(SimSettings {
            latency: slow..=slow,
            ..SimSettings::default()
        });
        manager.machines.ask(&id, verb).await.unwrap();
        in_time(async {
            loop {
                match events.recv().await.unwrap().what {
                    Happened::Done { verb: done } if done == verb => break,
                    // Stopping it has begun; that it is done is seen in lists, which have no such time.
                    Happened::Moved { .. } => world.cloud.set(SimSettings::default()),
                    Happened::Failed {
                        operation, text, ..
                    } if operation == verb.as_str() => panic!("{verb}: {text}"),
                    _ => {}
                }
            }
        })
        .await;
    }
    assert_eq!(manager.state(&id), State::Stopped(Halt::Off));
}

#[tokio::test]
async fn a_spot_machine_that_is_taken_back_is_gone_for_that_reason() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let spot = MachineOrder {
        purchase: Purchase::Spot {
            types: Vec::new(),
            fallback: false,
        },
        ..order()
    };
    let id = manager.made(spot).await;
    let machine = manager.machines.get(&id).unwrap();
    let made = machine.record().made().unwrap();
    assert!(made.spot);
    assert!(world.cloud.interrupt(&made.resource).unwrap());
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Interrupted));
}

#[tokio::test]
async fn too_many_machines_are_refused() {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        machines: 2,
        ..quick()
    };
    let manager = world.start_with(settings).await;
    for _ in 0..2 {
        manager.running().await;
    }
    let refused = manager.machines.order(order()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there are 2 machines already: destroy some, or raise the limit"
    );
}
