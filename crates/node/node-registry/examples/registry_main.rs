//! A Main Node for `tests/registry/kill.rs`: nodes join, are paused and are forgotten, and everything that anybody
//! is told is printed. Killed at any point, it has lost nothing of that.
//!
//! `registry_main DATABASE`

#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the trial, which is the report"
)]

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use muster_api::common::v2::OsInfo;
use muster_api::iamanager::v6 as wire;
use muster_node_registry::{
    Answer, Command, NodeCommands, PeerKind, Registry, RegistryLimits, SCHEMA,
};
use muster_store::{OnDamage, Store, StoreConfig};
use tokio::sync::{mpsc, watch};

const NODES: usize = 4;

struct NoCommands;

impl NodeCommands for NoCommands {
    fn carry_out(&self, _: Command) -> BoxFuture<'_, Answer> {
        async { Answer::CertTypesResponse(wire::CertTypes::default()) }.boxed()
    }
}

fn node(id: &str) -> wire::NodeInfo {
    wire::NodeInfo {
        node_id: id.into(),
        node_type: "board".into(),
        os_info: Some(OsInfo {
            os: "linux".into(),
            ..Default::default()
        }),
        state: "provisioned".into(),
        ..Default::default()
    }
}

/// A node that says yes to everything.
fn join(registry: &Registry, id: &str) -> tokio::task::JoinHandle<()> {
    let (send, mut receive) = mpsc::channel(4);
    let inbound = stream::poll_fn(move |cx| receive.poll_recv(cx));
    let peer = PeerKind::Protected {
        node: muster_tls::NodeId::new(id).unwrap(),
    };
    let mut outgoing = registry.accept(inbound, peer).unwrap();
    let hello = Answer::NodeInfo(node(id));
    tokio::spawn(async move {
        let say = |answer| {
            Ok(wire::IamOutgoingMessages {
                iam_outgoing_message: Some(answer),
            })
        };
        send.send(say(hello)).await.unwrap();
        while let Some(Ok(_)) = outgoing.next().await {
            let yes = Answer::PauseNodeResponse(wire::PauseNodeResponse::default());
            send.send(say(yes)).await.unwrap();
        }
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[
        muster_node_registry::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let path = std::env::args_os().nth(1).unwrap();
    let config = StoreConfig::new(Path::new(&path), "registry_main", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
    let (_local, local) = watch::channel(node("main").try_into().unwrap());
    let limits = RegistryLimits::default();
    let registry = Registry::open(store, Arc::new(NoCommands), local, limits)
        .await
        .unwrap();
    println!("opened");
    let mut changes = registry.subscribe();
    let seen = tokio::spawn(async move {
        while let Some(record) = changes.next().await {
            let (id, state) = (&record.info.node_id, record.info.state);
            if id.as_str() != "main" {
                println!("shown {id} {state}");
            }
        }
    });
    for number in 0..NODES {
        let id = format!("node-{number}");
        let node = join(&registry, &id);
        let mut joined = registry.subscribe();
        while let Some(record) = joined.next().await {
            if record.info.node_id.as_str() == id
                && record.connection == muster_node_registry::Connection::Connected
            {
                break;
            }
        }
        let pause = Command::PauseNodeRequest(wire::PauseNodeRequest::default());
        registry.command(&id, pause).await.unwrap();
        println!("paused {id}");
        node.abort();
    }
    registry.shutdown().await;
    drop(registry);
    seen.await.unwrap();
    println!("closed");
}
