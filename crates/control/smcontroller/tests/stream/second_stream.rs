//! Two streams that claim to be one node.

use std::time::Instant;

use muster_api::servicemanager::v5 as wire;
use muster_smcontroller::{Incident, NodeConfigs as _, StreamRefused};
use tonic::Code;
use wire::sm_incoming_messages::SmIncomingMessage as Command;

use crate::rig::*;

#[tokio::test]
async fn a_second_stream_is_refused_and_reported_when_the_first_answers() {
    let mut site = Site::new(quick()).await;
    let first = site.node("a").await.answer_all("first");
    let mut second = site.open("a").await;
    second.say(info("a")).await;
    let status = second.end().await;
    assert_eq!(status.code(), Code::AlreadyExists, "{status}");
    let reported = site.incident().await;
    let Incident::Refused {
        node,
        why,
        kept_out,
        ..
    } = reported
    else {
        panic!("{reported:?}");
    };
    assert_eq!(node, Some(id("a")));
    assert_eq!(why, StreamRefused::AlreadyConnected { node: id("a") });
    assert_eq!(kept_out, None);
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "first", "it noticed nothing");
    site.end().await;
    first.await.unwrap();
}

#[tokio::test]
async fn a_second_stream_takes_over_from_one_that_does_not_answer() {
    let mut site = Site::new(quick()).await;
    let mut first = site.node("a").await;
    // Something of the first stream that its receiver has not taken yet.
    site.hold(&["a"]);
    first.say(alert("of the first")).await;
    site.wait_for(&Event::Held("a".into())).await;
    let began = Instant::now();
    let second = site.open("a").await;
    second.say(info("a")).await;
    second.say(alert("of the second")).await;
    let status = first.end().await;
    assert_eq!(status.code(), Code::Aborted, "{status}");
    assert!(began.elapsed() >= quick().ping, "it had its time to answer");
    let second = second.answer_all("second");
    site.hold(&[]);
    let seen = site
        .wait_for(&Event::Alert("a".into(), "of the second".into()))
        .await;
    let of_a = |text: &str| Event::Alert("a".into(), text.into());
    let told = ["instances", "monitoring", "alerts", "logs", "nodes"];
    let mut expected = vec![of_a("of the first")];
    expected.extend(told.map(|receiver| Event::Disconnected("a".into(), receiver)));
    expected.extend([Event::Connected("a".into()), of_a("of the second")]);
    assert_eq!(
        seen, expected,
        "the first is emptied before the second begins"
    );
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "second");
    site.end().await;
    second.await.unwrap();
}

#[tokio::test]
async fn a_command_that_is_being_worked_on_does_not_keep_a_node_from_answering_the_ping() {
    let mut site = Site::new(quick()).await;
    let mut first = site.node("a").await;
    let controller = site.controller.clone();
    // Its answer takes longer than the ping may, and the ping has another kind of answer too.
    let set = tokio::spawn(async move {
        controller
            .set_node_config(&id("a"), "2".into(), "{}".into())
            .await
    });
    assert!(matches!(first.command().await, Command::SetNodeConfig(_)));
    let mut second = site.open("a").await;
    second.say(info("a")).await;
    assert!(matches!(
        first.command().await,
        Command::GetAverageMonitoring(_)
    ));
    first.say(average(1)).await;
    let status = second.end().await;
    assert_eq!(status.code(), Code::AlreadyExists, "{status}");
    first.say(config_status("2")).await;
    assert_eq!(set.await.unwrap().unwrap().version, "2");
    site.end().await;
}

#[tokio::test]
async fn a_node_that_keeps_coming_back_gets_in_with_its_last_stream() {
    let mut site = Site::new(quick()).await;
    let _silent = site.node("a").await;
    let mut others = Vec::new();
    for _ in 0..3 {
        let other = site.open("a").await;
        other.say(info("a")).await;
        others.push(other);
    }
    site.wait_for(&Event::gone("a")).await;
    site.wait_for(&Event::Connected("a".into())).await;
    let last = others.pop().unwrap().answer_all("last");
    for other in &mut others {
        let status = other.end().await;
        assert_eq!(status.code(), Code::Aborted, "{status}");
    }
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "last");
    site.end().await;
    last.await.unwrap();
}
