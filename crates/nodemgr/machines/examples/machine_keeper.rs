//! A small manager of machines, for tests that kill it.
//!
//! `machine_keeper FOLDER STEP...`: keeps machines in FOLDER/state/machines.db, made by a simulated cloud in FOLDER/cloud. Steps are
//! those of [`Keeper::carry_out`]; the cloud has troubles when it is told to `churn` with a SEED other than 0. What it prints has
//! happened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_machines::testing::{Keeper, KeeperError, order};
use muster_machines::{MachineOrder, Settings};
use muster_provider::sim::{SimCloud, SimFaults, SimSettings};
use muster_provider::{MachineSpec, ProviderId};

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

fn simulated(key: &str) -> MachineOrder {
    order(ProviderId::Sim, MachineSpec::default(), Some(key))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), KeeperError> {
    muster_fault::init(&[
        muster_machines::FAULT_POINTS,
        muster_provider::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, steps @ ..] = arguments.as_slice() else {
        return Err("FOLDER STEP...".into());
    };
    let folder = Path::new(folder);
    let seed = steps.iter().skip_while(|&step| step != "churn").nth(1);
    let seed = seed.map_or(Ok(0), |seed| seed.parse())?;
    let cloud = SimCloud::open(&folder.join("cloud"), cloud(seed))?;
    let provider = Arc::new(cloud.provider());
    let keeper = Keeper::start(folder, provider, None, settings()).await?;
    keeper.carry_out(steps, simulated).await?;
    keeper.close().await
}
