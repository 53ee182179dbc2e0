//! A small daemon's use of a keeper, for tests that kill it.
//!
//! `node_config_setter FOLDER`: installs the versions 1.0.0 to 4.0.0 above what is installed. What it prints has happened:
//! `found VERSION PRIORITY`, `set VERSION`, `done`.

use std::io::{self, Write};
use std::path::Path;

use muster_api::domain::{NodeConfigState, NodeId, NodeType};
use muster_node_config::{Identity, NodeConfigKeeper, SCHEMA, Settings};
use muster_store::{OnDamage, Store, StoreConfig};

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[muster_node_config::FAULT_POINTS, muster_store::FAULT_POINTS]);
    let folder = std::env::args().nth(1).expect("FOLDER");
    let config = StoreConfig::new(
        Path::new(&folder).join("sm.db"),
        "setter 1",
        OnDamage::Refuse,
    );
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("the store")
        .store;
    let settings = Settings::new(Identity {
        node_id: NodeId::new("node-1").expect("an id"),
        node_type: NodeType::new("main").expect("a type"),
    });
    let started = NodeConfigKeeper::start(store, settings).await;
    let (keeper, task) = started.expect("a keeper");
    tokio::spawn(task);
    let in_force = keeper.subscribe();
    let status = keeper.status();
    let priority = in_force.borrow().priority;
    let installed = match status.state {
        NodeConfigState::Absent => 0,
        NodeConfigState::Installed => {
            let major = status.version.split('.').next().expect("a version");
            major.parse().expect("a number")
        }
        NodeConfigState::Failed => panic!("{status:?}"),
    };
    say(&format!("found {installed} {priority}"));
    for version in installed + 1..=4 {
        let document = format!("{{\"priority\": {version}}}");
        let status = keeper.set(format!("{version}.0.0"), document).await;
        assert_eq!(status.state, NodeConfigState::Installed, "{status:?}");
        assert_eq!(in_force.borrow().priority, version, "answered, so in force");
        say(&format!("set {version}"));
    }
    say("done");
}
