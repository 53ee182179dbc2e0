//! A node that says more than anybody wants to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_control_api::v1;
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::node::Node;
use crate::rig::{Cm, Instances, Site, until};

/// The most that a command to another node may take: as long as the protocol waits for an answer.
const BOUND: Duration = Duration::from_secs(5);
const ROUNDS: u32 = 10;

/// A long measurement of instances that nobody knows.
fn measurement() -> Said {
    let data = wire::MonitoringData {
        timestamp: Some(SystemTime::now().into()),
        ..Default::default()
    };
    let instance = |number| wire::InstanceMonitoring {
        instance: Some(common::InstanceIdent {
            item_id: "nobody".to_owned(),
            subject_id: "nobody".to_owned(),
            instance: number,
            ..Default::default()
        }),
        monitoring_data: Some(data.clone()),
        ..Default::default()
    };
    Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(data.clone()),
        instances_monitoring: (0..200).map(instance).collect(),
    })
}

/// How long a command to a node and its answer take.
async fn ask(cm: &Cm, node: &str) -> Duration {
    let request = v1::ReadLogsRequest {
        node_ids: vec![node.to_owned()],
        ..Default::default()
    };
    let asked = Instant::now();
    let mut log = cm
        .control()
        .await
        .read_logs(request)
        .await
        .unwrap()
        .into_inner();
    let chunk = log.message().await.unwrap().unwrap();
    assert_eq!(chunk.data, format!("the log of {node}\n").into_bytes());
    asked.elapsed()
}

/// How often a node has connected: each stream begins with the state of the cloud.
fn streams(node: &Node) -> usize {
    let commands = node.commands();
    commands
        .iter()
        .filter(|it| matches!(it, Command::ConnectionStatus(_)))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_node_does_not_disturb_the_others() {
    let site = Site::new();
    let cm = site.start();
    let (flooder, others) = (
        Arc::new(site.node("flooder")),
        [site.node("n1"), site.node("n2"), site.node("n3")],
    );
    let document = |version: &str| {
        let mut document = site.document(&[("web", version, 1), ("own", "1.0.0", 1)]);
        document["instances"][0]["node"] = "n1".into();
        document["instances"][1]["node"] = "flooder".into();
        document
    };
    cm.apply(&document("0.0.0")).await;
    cm.until_active(2).await;
    for node in ["n2", "n3"] {
        ask(&cm, node).await;
    }

    // Long measurements, as fast as they are taken.
    let said = Arc::new(AtomicU64::new(0));
    let flood = tokio::spawn({
        let (flooder, said) = (Arc::clone(&flooder), Arc::clone(&said));
        async move {
            loop {
                flooder.say(measurement()).await;
                said.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    // It is past what a node may say at once, and so is held back.
    until("a flood", || {
        (said.load(Ordering::Relaxed) > 2000).then_some(())
    })
    .await;

    let mut slowest = Duration::ZERO;
    for round in 1..=ROUNDS {
        for node in ["n2", "n3"] {
            slowest = slowest.max(ask(&cm, node).await);
        }
        let version = format!("{round}.0.0");
        let document = document(&version);
        let asked = Instant::now();
        cm.apply(&document).await;
        let runs = || {
            others[0]
                .running()
                .get("web:local:0")
                .is_some_and(|it| it.info.version == version)
                .then_some(())
        };
        until("the new version on its node", runs).await;
        slowest = slowest.max(asked.elapsed());
    }
    let before = said.load(Ordering::Relaxed);
    until("a flood that goes on", || {
        (said.load(Ordering::Relaxed) > before).then_some(())
    })
    .await;
    println!("{before} messages, the slowest command took {slowest:?}");
    assert!(slowest < BOUND, "a command took {slowest:?}");
    for node in &others {
        assert_eq!(streams(node), 1, "a node was cut off");
    }

    // Who falls silent is a node like any other.
    flood.abort();
    let mut more = document("99.0.0");
    more["instances"][1]["count"] = 2.into();
    cm.apply(&more).await;
    let all = |now: &Instances| now.len() == 3 && now.values().all(|it| it.state == "active");
    cm.until("the flooder's own instances", all).await;
    cm.end();
}
