//! A small manager of machines, for tests that kill it.
//!
//! `machine_keeper FOLDER STEP...`: keeps machines in FOLDER/machines.db, made by a simulated cloud in FOLDER/cloud. Steps, in
//! turn: `order KEY` (waits until it runs), `stop KEY`, `start KEY`, `destroy KEY` (each waits for its end), `cancel KEY` (orders and
//! destroys at once), `settle` (waits until nothing is on its way), `churn SEED` (orders and destroys without end, each as
//! `ordered KEY` and `destroyed KEY`).
//! What it prints has happened.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{State, Verb};
use muster_machines::{MachineOrder, Machines, Parts, Phase, SCHEMA, Settings};
use muster_provider::sim::{SimCloud, SimFaults, SimSettings};
use muster_provider::{MachineId, MachineSpec, ManagerId, ProviderId, Purchase, SystemClock};
use muster_store::{OnDamage, Store, StoreConfig};
use rand::RngExt as _;

fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn order(key: &str) -> MachineOrder {
    MachineOrder {
        provider: ProviderId::Sim,
        template: "test".to_owned(),
        spec: MachineSpec::default(),
        purchase: Purchase::OnDemand,
        labels: Default::default(),
        timers: Default::default(),
        key: Some(key.to_owned()),
    }
}

/// Fast, so that many runs fit into a test.
fn settings() -> Settings {
    let short = Duration::from_millis(2);
    Settings {
        poll: short,
        sweep: Duration::from_millis(50),
        retry: short,
        retry_longest: Duration::from_millis(20),
        settle: Duration::ZERO,
        attempts: 20,
        ..Settings::default()
    }
}

fn cloud(seed: u64) -> SimSettings {
    let faults = match seed {
        0 => SimFaults::default(),
        _ => SimFaults {
            fail: 50,
            lose_answer: 100,
            ..SimFaults::default()
        },
    };
    SimSettings {
        seed,
        faults,
        // Long enough for an order to be taken back before it is answered.
        latency: Duration::from_millis(3)..=Duration::from_millis(3),
        boot: Duration::from_millis(3),
        halt: Duration::from_millis(3),
        ..SimSettings::default()
    }
}

/// The newest machine that was ordered with the key.
async fn find(machines: &Machines, key: &str) -> MachineId {
    machines.order(order(key)).await.expect("known by its key")
}

async fn wait(machines: &Machines, id: &MachineId, wanted: impl Fn(State) -> bool) {
    machines
        .wait_until(id, wanted)
        .await
        .expect("the machine is known");
}

async fn settle(machines: &Machines) {
    let mut snapshot = machines.watch();
    let settled = snapshot.wait_for(|all| {
        all.values().all(|machine| match &machine.record().phase {
            Phase::Ordered | Phase::Cancelled { .. } => false,
            Phase::Made(made) => {
                let between = matches!(
                    made.life.state(),
                    State::Pending | State::Stopping(_) | State::ShuttingDown
                );
                made.life.task().is_none() && !between
            }
            Phase::Gone { .. } => true,
        })
    });
    settled.await.expect("the registry lives");
}

/// Orders and destroys until somebody ends it.
async fn churn(machines: &Machines) {
    for number in 0_u64.. {
        let key = format!("churn-{}-{number}", std::process::id());
        let id = machines.order(order(&key)).await.expect("ordered");
        say(&format!("ordered {key}"));
        if rand::rng().random_bool(0.5) {
            wait(machines, &id, |state| state == State::Running).await;
        }
        if rand::rng().random_bool(0.7) {
            machines.destroy(&id).await.expect("destroyed");
            wait(machines, &id, |state| state == State::Terminated).await;
            say(&format!("destroyed {key}"));
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[
        muster_machines::FAULT_POINTS,
        muster_provider::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, steps @ ..] = arguments.as_slice() else {
        panic!("FOLDER STEP...")
    };
    let folder = Path::new(folder);
    let config = StoreConfig::new(
        folder.join("state/machines.db"),
        "machine_keeper 1",
        OnDamage::Refuse,
    );
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("the database opens")
        .store;
    let seed = steps.iter().skip_while(|&step| step != "churn").nth(1);
    let seed = seed.map_or(0, |seed| seed.parse().expect("a number"));
    let cloud = SimCloud::open(&folder.join("cloud"), cloud(seed)).expect("the cloud opens");
    let parts = Parts {
        store: store.clone(),
        manager: ManagerId::new("keeper").expect("a name"),
        providers: vec![Arc::new(cloud.provider())],
        clock: Arc::new(SystemClock),
    };
    let (machines, task) = Machines::start(parts, settings())
        .await
        .expect("the registry starts");
    let task = tokio::spawn(task);
    say("started");

    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        if step == "settle" {
            settle(&machines).await;
            say("settled");
            continue;
        }
        let key = steps.next().expect("a key");
        match step.as_str() {
            "order" => {
                let id = find(&machines, key).await;
                wait(&machines, &id, |state| state != State::Pending).await;
            }
            "stop" => {
                let id = find(&machines, key).await;
                machines.ask(&id, Verb::Stop).await.expect("asked");
                wait(&machines, &id, |state| matches!(state, State::Stopped(_))).await;
            }
            "start" => {
                let id = find(&machines, key).await;
                machines.ask(&id, Verb::Start).await.expect("asked");
                wait(&machines, &id, |state| state == State::Running).await;
            }
            "destroy" => {
                let id = find(&machines, key).await;
                machines.destroy(&id).await.expect("asked");
                wait(&machines, &id, |state| state == State::Terminated).await;
            }
            "cancel" => {
                let id = find(&machines, key).await;
                machines.destroy(&id).await.expect("asked");
                wait(&machines, &id, |state| state == State::Terminated).await;
            }
            "churn" => churn(&machines).await,
            other => panic!("no step {other}"),
        }
        say(&format!("{step} {key}"));
    }
    drop(machines);
    task.await.expect("the registry ends");
    store.close().await.expect("a clean close");
    say("closed");
}
