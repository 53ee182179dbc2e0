//! A small manager of runs, for tests that kill it.
//!
//! `run_keeper FOLDER STEP...`: keeps runs and machines in FOLDER/state/machines.db, of a simulated cloud in FOLDER/cloud;
//! what machines do is in FOLDER/deeds. Steps, in turn: `run KEY WORKFLOW` (begins the run of the key, waits for its end, and
//! prints `over KEY CODE`), `cancel KEY WORKFLOW` (the same, but cancels it at once), `remove KEY WORKFLOW`, `settle` (waits until all runs
//! are over and no machine is on its way).

#[path = "../tests/runs/fake.rs"]
mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::State;
use muster_machines::Machines;
use muster_machines::testing::{KeeperError, say};
use muster_orchestrate::{Format, Limits, Parts, RunId, RunOrder, Runs, Settings, Workflow};
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::{ManagerId, SystemClock};
use muster_store::{OnDamage, Store, StoreConfig};

use crate::fake::{Deeds, FakeReach, SimChooser};

/// Fast, so that many runs fit into a test.
fn registry() -> muster_machines::Settings {
    let short = Duration::from_millis(2);
    muster_machines::Settings {
        poll: short,
        sweep: Duration::from_millis(50),
        retry: short,
        retry_longest: Duration::from_millis(20),
        settle: Duration::ZERO,
        ..muster_machines::Settings::default()
    }
}

async fn begin(runs: &Runs, key: &str, text: &str) -> Result<RunId, KeeperError> {
    let workflow = Workflow::read("w", Format::Yaml, text.as_bytes(), &Limits::default())?;
    let key = Some(key.to_owned());
    Ok(runs.begin(RunOrder { workflow, key }).await?)
}

async fn settle(runs: &Runs, machines: &Machines) -> Result<(), KeeperError> {
    for run in runs.list(1000).await? {
        runs.wait(&run.id).await?;
    }
    let mut snapshot = machines.watch();
    let settled = snapshot.wait_for(|all| {
        all.values().all(|machine| {
            let state = machine.record().state();
            !matches!(
                state,
                State::Pending | State::Stopping(_) | State::ShuttingDown
            )
        })
    });
    settled.await?;
    Ok(())
}

async fn carry_out(steps: &[String], runs: &Runs, machines: &Machines) -> Result<(), KeeperError> {
    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        if step == "settle" {
            settle(runs, machines).await?;
            say("settled")?;
            continue;
        }
        let (Some(key), Some(text)) = (steps.next(), steps.next()) else {
            return Err("a step without a key and a workflow".into());
        };
        let run = begin(runs, key, text).await?;
        say(&format!("begun {key}"))?;
        match step.as_str() {
            "run" => {}
            // It may be over already, when the one before was killed.
            "cancel" => drop(runs.cancel(&run).await),
            "remove" => {
                runs.wait(&run).await?;
                runs.remove(&run).await?;
                continue;
            }
            other => return Err(format!("no step {other}").into()),
        }
        let outcome = runs.wait(&run).await?;
        say(&format!("over {key} {}", outcome.exit_code()))?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), KeeperError> {
    muster_fault::init(&[
        muster_orchestrate::FAULT_POINTS,
        muster_machines::FAULT_POINTS,
        muster_provider::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, steps @ ..] = arguments.as_slice() else {
        return Err("FOLDER STEP...".into());
    };
    let folder = Path::new(folder);
    let path = folder.join("state/machines.db");
    let config = StoreConfig::new(path, "run_keeper 1", OnDamage::Refuse)
        .schema(&muster_machines::SCHEMA)
        .schema(&muster_orchestrate::SCHEMA);
    let store = Store::open(&config)?.store;
    let cloud = SimSettings {
        latency: Duration::from_millis(2)..=Duration::from_millis(2),
        boot: Duration::from_millis(2),
        halt: Duration::from_millis(2),
        ..SimSettings::default()
    };
    let cloud = SimCloud::open(&folder.join("cloud"), cloud)?;
    let clock = Arc::new(SystemClock);
    let parts = muster_machines::Parts {
        store: store.clone(),
        manager: ManagerId::new("keeper")?,
        providers: vec![Arc::new(cloud.provider())],
        clock: clock.clone(),
        keys: None,
    };
    let (machines, registry) = Machines::start(parts, registry()).await?;
    let registry = tokio::spawn(registry);
    let parts = Parts {
        store: store.clone(),
        machines: machines.clone(),
        chooser: Arc::new(SimChooser),
        reach: Arc::new(FakeReach::new(Deeds::new(&folder.join("deeds")), 2)),
        clock,
        settings: Settings {
            probe: Duration::from_millis(1),
            // Whoever asks again with an old key is to hear of the old run.
            keep_runs: 10_000,
            ..Settings::new(folder.join("runs"))
        },
    };
    let (runs, task) = Runs::start(parts).await?;
    let task = tokio::spawn(task);
    say("started")?;
    carry_out(steps, &runs, &machines).await?;
    drop(runs);
    task.await?;
    drop(machines);
    registry.await?;
    store.close().await?;
    Ok(say("closed")?)
}
