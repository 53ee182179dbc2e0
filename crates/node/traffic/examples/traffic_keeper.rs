//! Counts one instance's traffic, for tests that kill it: `traffic_keeper DATABASE LOCK stop|remove`.
//!
//! It says `counting`, waits for a line, reads the counters, and stops or removes the instance; then it says what was counted.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, ItemType};
use muster_firewall::{Firewall, Nft};
use muster_store::{OnDamage, Store, StoreConfig};
use muster_telemetry::CancellationToken;
use muster_traffic::{FAULT_POINTS, Limits, SCHEMA, Settings, Traffic};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 20, 0, 2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    muster_fault::init(&[FAULT_POINTS]);
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("too few arguments");
    let (database, lock, end) = (next()?, next()?, next()?);
    let instance = InstanceIdent {
        item_id: "item".parse()?,
        subject_id: "subject".parse()?,
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    };

    let config = StoreConfig::new(database, "traffic_keeper", OnDamage::Refuse).schema(&SCHEMA);
    let store = Store::open(&config)?.store;
    let settings = Settings {
        poll: Duration::from_secs(600),
        save: Duration::from_secs(600),
        ..Settings::default()
    };
    let firewall = Firewall::with(Nft::new()).lock_file(lock);
    let (traffic, task) = Traffic::open(store.clone(), firewall, settings).await?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(task.run(stop.clone()));
    traffic
        .add_instance(&instance, ADDRESS.into(), Limits::default())
        .await?;
    say("counting")?;
    tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new())).await??;

    traffic.poll().await?;
    let usage = traffic
        .instance(&instance)
        .ok_or("the instance is not counted")?;
    if end == "remove" {
        traffic.remove_instance(&instance).await?;
    }
    stop.cancel();
    task.await??;
    store.close().await?;
    say(&format!("{} {}", usage.download, usage.upload))?;
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")?;
    io::stdout().flush()
}
