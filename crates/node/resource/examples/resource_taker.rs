//! A small daemon's use of a resource manager, for tests that kill it.
//!
//! `resource_taker FOLDER`: says who has the only share of `r`, frees it since nobody runs, lets the instances 0 to 2 take it
//! and give it back, and leaves it with instance 7. What it prints has happened: `held WHO`, `sorted`, `took WHO`,
//! `released WHO`, `done`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use muster_alert::AlertSink;
use muster_api::domain::{Alert, InstanceIdent, ItemId, ItemType, SubjectId};
use muster_item::{ItemConfig, ResourceRequest};
use muster_launcher::seams::Resources as _;
use muster_resource::{ResourceManager, SCHEMA, Settings};
use muster_store::{OnDamage, Store, StoreConfig};

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

#[derive(Debug)]
struct Nobody;

impl AlertSink for Nobody {
    fn raise(&self, _: Alert) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[muster_resource::FAULT_POINTS, muster_store::FAULT_POINTS]);
    let folder = std::env::args().nth(1).expect("FOLDER");
    let folder = Path::new(&folder);
    let config = StoreConfig::new(folder.join("sm.db"), "taker 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("the store")
        .store;
    let sql = "SELECT coalesce(group_concat(ident), 'nobody') FROM resource_holds";
    let holders = store.read(move |db| db.query_row(sql, [], |row| row.get::<_, String>(0)));
    say(&format!("held {}", holders.await.expect("the holders")));
    let settings = Settings::new(folder.join("resources.json"));
    let started = ResourceManager::start(store, settings, Arc::new(Nobody)).await;
    let (manager, task) = started.expect("a manager");
    tokio::spawn(task);
    let item = ItemConfig {
        resources: vec![ResourceRequest {
            name: "r".into(),
            mode: None,
        }],
        ..ItemConfig::default()
    };

    manager.keep_only(BTreeSet::new()).await;
    say("sorted");
    for number in 0..3 {
        for _ in 0..2 {
            manager
                .take(&instance(number), &item)
                .await
                .expect("a share");
        }
        say(&format!("took {}", instance(number)));
        manager.release(&instance(number)).await.expect("released");
        say(&format!("released {}", instance(number)));
    }
    manager.take(&instance(7), &item).await.expect("a share");
    say(&format!("took {}", instance(7)));
    say("done");
}
