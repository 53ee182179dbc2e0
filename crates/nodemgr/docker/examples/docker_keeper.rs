//! A small manager of containers, for tests that kill it.
//!
//! `docker_keeper ENGINE FOLDER STEP...`: keeps machines of the engine in FOLDER/state/machines.db. Steps are those of
//! [`Keeper::carry_out`]. What it prints has happened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_docker::{DockerProvider, Engine};
use muster_machines::testing::{Keeper, KeeperError, order};
use muster_machines::{MachineOrder, Settings};
use muster_provider::{MachineSpec, ProviderId};

/// Fast, so that many runs fit into a test.
fn settings() -> Settings {
    let short = Duration::from_millis(20);
    Settings {
        poll: short,
        sweep: Duration::from_millis(200),
        retry: short,
        retry_longest: Duration::from_millis(200),
        // The engine may still be busy with what a manager asked that was killed.
        settle: Duration::from_secs(1),
        attempts: 20,
        ..Settings::default()
    }
}

fn container(key: &str) -> MachineOrder {
    let spec = MachineSpec {
        image: Some(muster_lab::docker::IMAGE.to_owned()),
        ..MachineSpec::default()
    };
    order(ProviderId::Docker, spec, Some(key))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), KeeperError> {
    muster_fault::init(&[
        muster_machines::FAULT_POINTS,
        muster_docker::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, folder, steps @ ..] = arguments.as_slice() else {
        return Err("ENGINE FOLDER STEP...".into());
    };
    let engine = Engine::new(engine.parse()?);
    let provider = DockerProvider::new(engine).with_grace(Duration::from_secs(5));
    let keeper = Keeper::start(Path::new(folder), Arc::new(provider), None, settings()).await?;
    keeper.carry_out(steps, container).await?;
    keeper.close().await
}
