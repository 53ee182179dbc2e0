//! Updates that get nowhere.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use muster_api::servicemanager::v5 as wire;
use muster_control_api::v1;
use muster_lab::program::Stream;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;
use wire::sm_service_client::SmServiceClient;

use crate::node::info;
use crate::rig::{Cm, Instances, Site, TIME};

/// What the next one takes at most, on a machine that may be busy. Stuck ones give up after minutes.
const SOON: Duration = Duration::from_secs(20);

/// Between two looks at something.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until the update in force is at this step.
async fn until_step(cm: &Cm, update_id: u64, step: &str) {
    let deadline = Instant::now() + TIME;
    loop {
        let request = v1::GetOverviewRequest {};
        let overview = cm
            .control()
            .await
            .get_overview(request)
            .await
            .unwrap()
            .into_inner();
        let update = overview.update.unwrap();
        if update.update_id == update_id && update.step == step {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not {step}: {update:#?}\n{}",
            cm.last_words()
        );
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the controller knows whether a node is connected.
async fn until_connected(cm: &Cm, node: &str, connected: bool) {
    let deadline = Instant::now() + TIME;
    while cm.nodes().await.get(node).is_some_and(|it| it.connected) != connected {
        assert!(
            Instant::now() < deadline,
            "{node}: not {connected}\n{}",
            cm.last_words()
        );
        tokio::time::sleep(LOOK).await;
    }
}

/// A node that takes whatever it is told, and never says a word about it.
async fn silent_node(cm: &Cm, id: &'static str) -> impl Drop + use<> {
    struct Aborted(tokio::task::JoinHandle<()>);
    impl Drop for Aborted {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let text = cm.process.text(Stream::Stderr) + &cm.process.text(Stream::Stdout);
    let (_, rest) = text.split_once("nodes are served address=").unwrap();
    let address: SocketAddr = rest.split_whitespace().next().unwrap().parse().unwrap();
    let channel = Endpoint::try_from(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let (out, outgoing) = mpsc::channel(2);
    for said in [
        Said::SmInfo(info(id)),
        Said::NodeInstancesStatus(wire::NodeInstancesStatus::default()),
    ] {
        let message = wire::SmOutgoingMessages {
            sm_outgoing_message: Some(said),
        };
        out.send(message).await.unwrap();
    }
    let stream = SmServiceClient::new(channel)
        .register_sm(ReceiverStream::new(outgoing))
        .await;
    let mut incoming = stream.unwrap().into_inner();
    Aborted(tokio::spawn(async move {
        // Its own end stays open for as long as it listens.
        let _out = out;
        while let Ok(Some(_)) = incoming.message().await {}
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_update_never_blocks_the_next() {
    let site = Site::new().set("launcher", json!({"nodesConnectionTimeout": "500ms"}));
    let cm = site.start();
    let node = site.node("n1");
    let _silent = silent_node(&cm, "silent").await;
    let mut dying = Some(silent_node(&cm, "dying").await);
    let with_web = |version: &str| {
        let mut document = site.document(&[
            ("stays", "1.0.0", 1),
            ("web", version, 1),
            ("stuck", "1.0.0", 1),
        ]);
        document["instances"][0]["node"] = "n1".into();
        document["instances"][1]["node"] = "n1".into();
        document
    };
    let fine = |version: &str| {
        let mut document = with_web(version);
        document["instances"].as_array_mut().unwrap().pop();
        document
    };
    for node in ["silent", "dying"] {
        until_connected(&cm, node, true).await;
    }
    cm.apply(&fine("0.0.0")).await;
    cm.until_active(2).await;
    let untouched = node.start_of("stays:local:0");

    // Whoever asks this registry is never answered.
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let reference = format!("{}/stuck:1", registry.local_addr().unwrap());
    let mut hanging = with_web("0.0.0");
    hanging["items"][2] = json!({"id": "stuck", "version": "0.1.0", "image": {"registry": reference, "insecure": true}});
    let pinned = |node: &str| {
        let mut document = with_web("0.0.0");
        document["instances"][2]["node"] = node.into();
        document
    };
    let stuck = [
        ("an endless download", "downloading", hanging),
        ("a silent node", "activating", pinned("silent")),
        ("a node that dies", "activating", pinned("dying")),
    ];
    for (nth, (what, step, document)) in (1..).zip(stuck) {
        let blocked = cm.apply(&document).await.update_id;
        until_step(&cm, blocked, step).await;
        if what == "a node that dies" {
            drop(dying.take());
            until_connected(&cm, "dying", false).await;
            until_step(&cm, blocked, step).await;
        }

        let version = format!("{nth}.0.0");
        let asked = Instant::now();
        let next = cm.apply(&fine(&version)).await.update_id;
        assert_eq!(next, blocked + 1, "{what}");
        let is_new = |now: &Instances| {
            now.len() == 2
                && now.values().all(|it| it.state == "active")
                && now["web:local:0"].version == version
        };
        cm.until(&format!("what follows {what}"), is_new).await;
        let took = asked.elapsed();
        println!("{what}: the next took {took:?}");
        assert!(took < SOON, "{what}: the next took {took:?}");
        assert_eq!(
            node.start_of("stays:local:0"),
            untouched,
            "{what}: a bystander was touched"
        );
    }
    cm.end();
}
