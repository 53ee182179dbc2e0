//! A small daemon's use of permissions, for tests that kill it.
//!
//! `permissions_registrar FOLDER`: registers the instances 0 to 3, all of them twice, and unregisters
//! the last. What it prints has happened: `secret NUMBER SECRET`, `gone NUMBER`, `done`.

use std::io::{self, Write};
use std::path::Path;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
use muster_permissions::{Grants, Limits, Permissions, SCHEMA};
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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[muster_permissions::FAULT_POINTS, muster_store::FAULT_POINTS]);
    let folder = std::env::args().nth(1).expect("FOLDER");
    let folder = Path::new(&folder);
    let config = StoreConfig::new(folder.join("iam.db"), "registrar 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("the store")
        .store;
    let key = folder.join("permissions.key");
    let permissions = Permissions::open(store, &key, Limits::default()).expect("the key");
    let mut grants = Grants::default();
    grants.allow("vis", "Signal", "r").expect("a permission");
    for _ in 0..2 {
        for number in 0..4 {
            let registered = permissions.register(&instance(number), &grants).await;
            let secret = registered.expect("a secret");
            say(&format!("secret {number} {}", secret.expose()));
        }
    }
    permissions
        .unregister(&instance(3))
        .await
        .expect("the end of it");
    say("gone 3");
    say("done");
}
