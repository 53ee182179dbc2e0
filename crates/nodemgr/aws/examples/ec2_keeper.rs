//! A small manager of machines of EC2, for tests that kill it.
//!
//! `ec2_keeper FOLDER URL STEP...`: keeps machines in FOLDER, made by whatever answers at URL, with credentials from the environment.
//! `churn` orders and destroys without end, on demand and spot, and says `ordered KEY` and `destroyed KEY`; `left` waits until nothing is
//! on its way and says `left RESOURCE` of each machine that is there; `look` asks what there is, and says how much or why not. Other
//! steps are those of [`Keeper::carry_out`], where a key that starts with `spot` is that of a spot machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_aws::{AwsProvider, AwsSettings};
use muster_lifecycle::State;
use muster_machines::testing::{Keeper, KeeperError, order, say};
use muster_machines::{MachineOrder, Machines, Phase, Settings};
use muster_provider::{MachineSpec, ProviderId, Purchase};
use muster_seed::ManagerKeys;
use muster_telemetry::ErrorChain;

fn instance(key: &str, number: u64) -> MachineOrder {
    let spec = MachineSpec {
        ami: Some(muster_aws::testing::IMAGE.to_owned()),
        ..MachineSpec::default()
    };
    let purchase = match number % 3 {
        0 => Purchase::OnDemand,
        _ => Purchase::Spot {
            types: vec!["c6i.large".to_owned(), "m6i.large".to_owned()],
            fallback: true,
        },
    };
    MachineOrder {
        purchase,
        ..order(ProviderId::Aws, spec, Some(key))
    }
}

fn settings() -> Settings {
    let short = Duration::from_millis(5);
    Settings {
        poll: short,
        sweep: Duration::from_millis(50),
        retry: short,
        retry_longest: Duration::from_millis(50),
        settle: Duration::from_millis(200),
        attempts: 50,
        ..Settings::default()
    }
}

/// Stricter than the keeper's own: nothing here is ever stopped, so what is there must run.
async fn left(machines: &Machines) -> Result<(), KeeperError> {
    let mut snapshot = machines.watch();
    let settled = snapshot.wait_for(|all| {
        all.values().all(|machine| match &machine.record().phase {
            Phase::Ordered | Phase::Cancelled { .. } => false,
            Phase::Made(made) => made.life.task().is_none() && made.life.state() == State::Running,
            Phase::Gone { .. } => true,
        })
    });
    let all = settled.await?.clone();
    for machine in all.values() {
        if let Phase::Made(made) = &machine.record().phase {
            say(&format!("left {}", made.resource))?;
        }
    }
    Ok(())
}

async fn look(machines: &Machines) -> Result<(), KeeperError> {
    let looked = machines.find_orphans().await?;
    let found = match looked.failures.as_slice() {
        [] => format!("found {}", looked.orphans.len()),
        [failure, ..] => format!("failed {}", ErrorChain(failure)),
    };
    Ok(say(&found)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), KeeperError> {
    muster_fault::init(&[
        muster_machines::FAULT_POINTS,
        muster_aws::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, url, steps @ ..] = arguments.as_slice() else {
        return Err("FOLDER URL STEP...".into());
    };
    let folder = Path::new(folder);
    let provider = AwsProvider::open(AwsSettings {
        endpoint_url: Some(url.clone()),
        settle: Duration::from_millis(200),
        ..AwsSettings::default()
    });
    let provider = Arc::new(provider.await?);
    let keys = Arc::new(ManagerKeys::open(&folder.join("secret"))?);
    let keeper = Keeper::start(folder, provider, Some(keys), settings()).await?;
    match steps {
        [step] if step == "churn" => keeper.churn(instance).await?,
        [step] if step == "left" => left(&keeper.machines).await?,
        [step] if step == "look" => look(&keeper.machines).await?,
        steps => {
            let number = |key: &str| u64::from(key.starts_with("spot"));
            keeper
                .carry_out(steps, |key| instance(key, number(key)))
                .await?;
        }
    }
    keeper.close().await
}
