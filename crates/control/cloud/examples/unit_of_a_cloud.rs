//! A Unit's end of the link, for tests that kill it.
//!
//! `unit_of_a_cloud FOLDER DISCOVERY [FROM TO]`: keeps the messages with these numbers, prints `kept N` after each, and ends
//! with `drained` when the cloud has everything.

use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use muster_cloud::testing::samples;
use muster_cloud::{Access, CloudLink, FAULT_POINTS, SCHEMA, Settings, Started};
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{Alpn, ClientOptions, ClientTls, Insecure};

fn main() -> Result<(), Box<dyn Error>> {
    muster_fault::init(&[FAULT_POINTS]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(env::args().skip(1).collect()))
}

async fn run(arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (folder, discovery) = (&arguments[0], &arguments[1]);
    let database = Path::new(folder).join("cm.db");
    let config = StoreConfig::new(database, "test", OnDamage::Refuse).schema(&SCHEMA);
    let store = Store::open(&config)?.store;
    let short = Duration::from_millis(20);
    let settings = Settings {
        response_timeout: Duration::from_millis(500),
        pauses: (short, short),
        alerts_period: short,
        ..Settings::new(discovery.parse()?)
    };
    let options = ClientOptions {
        alpn: Alpn::Http1,
        ..ClientOptions::default()
    };
    let tls = ClientTls::insecure(&Insecure::because("a cloud on loopback")?, options);
    let access = Access {
        system_id: "unit-1".to_owned(),
        node: "main".to_owned(),
        tls,
    };
    let started = CloudLink::start(settings, store).await?;
    let Started {
        link,
        deliveries: _deliveries,
        worker,
    } = started;
    let worker = tokio::spawn(worker.run(std::future::ready(access)));
    if let [from, to] = &arguments[2..] {
        for number in from.parse()?..to.parse::<u64>()? {
            link.send(samples::numbered(number), None).await?;
            link.alerts(&[samples::alert(number)]).await?;
            println!("kept {number}");
        }
    }
    while link.kept().await? > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    println!("drained");
    worker.abort();
    Ok(())
}
