//! The end of the controller.

use std::time::Instant;

use muster_smcontroller::Limits;
use tonic::Code;

use crate::rig::*;

#[tokio::test]
async fn every_stream_ends_with_a_reason_and_what_arrived_is_taken() {
    let mut site = Site::new(quick()).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let node = site.node(name).await;
        node.say(alert("last words")).await;
        site.wait_for(&Event::Alert(name.into(), "last words".into()))
            .await;
        nodes.push(node);
    }
    let mut unnamed = site.open("d").await;
    assert_eq!(
        unnamed.cloud_state().await,
        muster_api::domain::ConnectionState::Disconnected
    );
    site.controller.stop().await;
    for node in nodes.iter_mut().chain([&mut unnamed]) {
        let status = node.end().await;
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
    let mut gone = Vec::new();
    while gone.len() < 3 {
        if let Event::Disconnected(node, "nodes") = site.event().await {
            gone.push(node);
        }
    }
    gone.sort();
    assert_eq!(gone, ["a", "b", "c"]);
    let refused = Node::open(site.channel("a", "sm").await)
        .await
        .err()
        .unwrap();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    site.end().await;
}

#[tokio::test]
async fn receivers_that_hang_do_not_hold_the_end_up() {
    let mut site = Site::new(quick()).await;
    let node = site.node("a").await;
    site.hold(&["a"]);
    node.say(alert("stuck")).await;
    site.wait_for(&Event::Held("a".into())).await;
    let began = Instant::now();
    site.controller.stop().await;
    let took = began.elapsed();
    assert!(took >= quick().stop, "it had its time: {took:?}");
    assert!(took < quick().stop + TIME / 4, "{took:?}");
    site.end().await;
}

#[tokio::test]
async fn a_contested_node_does_not_hold_the_end_up() {
    let limits = Limits {
        ping: TIME * 10,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let mut first = site.node("a").await;
    let mut second = site.open("a").await;
    second.say(info("a")).await;
    first.command().await;
    site.controller.stop().await;
    for node in [&mut first, &mut second] {
        assert_eq!(node.end().await.code(), Code::Unavailable);
    }
    assert!(site.controller.nodes().is_empty());
    site.end().await;
}
