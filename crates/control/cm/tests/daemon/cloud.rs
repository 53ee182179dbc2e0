//! The daemon and a cloud: its wishes run, and it is told how the Unit is; also when it is away for a while.
//!
//! Every type of message travels through the real daemon in one of these tests.

mod acks;
mod home;
mod keys;
mod logs;
mod outages;
mod scene;
mod states;
mod telemetry;
mod variables;

use std::time::Duration;

use muster_api::servicemanager::v5 as wire;
use muster_cloud::message::telemetry::{Alert, DownloadState};
use muster_cloud::message::{Identity, Outgoing};
use muster_cloud::testing::Seen;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use self::scene::{Scene, active, alerted, alerts, come_back, known, leave, system_alert, told};
use crate::rig::{TIME, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_of_the_cloud_becomes_active_instances_in_the_status_it_is_told() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    let txn = cloud.send(scene.wish(&[("web", 2)]), None);
    cloud.wait("active instances", |seen| active(seen, "web", 2));
    let seen = cloud.seen();
    assert!(seen.acknowledged.contains(&txn));
    assert_eq!(seen.problems, Vec::<String>::new());
    // It was asked where each blob is, and told how each download went.
    let asked = seen.once("requestBlobUrls").len();
    assert!(asked >= 3, "index, manifest and content: {asked}");
    let finished = |it: &Alert| {
        matches!(
            it,
            Alert::DownloadProgressAlert {
                state: DownloadState::Finished,
                ..
            }
        )
    };
    cloud.wait("finished downloads", |seen| {
        (alerts(seen).iter().filter(|it| finished(it)).count() >= 3).then_some(())
    });
    let status = known(&seen);
    let nodes = status.nodes.unwrap();
    assert_eq!(nodes[0].identity.name(), Some("n1"));
    assert!(nodes[0].is_connected);
    let instances = &status.instances.unwrap()[0];
    assert_eq!(instances.subject.name(), Some("driver"));
    assert_eq!(instances.instances[0].runtime.name(), Some("runc-n1"));
    until("the node knows", || (told(&node) == Some(1)).then_some(())).await;

    // A wish that makes no sense changes nothing, and the cloud is told.
    let mut wrong = scene.wish(&[("web", 2)]);
    wrong.instances[0].item = Identity::id("nobody");
    cloud.send(wrong, None);
    cloud.wait("a complaint", |seen| alerted(seen, "desiredStatus"));
    assert_eq!(node.running().len(), 2);

    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_while_the_cloud_is_away_is_told_when_it_is_back() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    let running = node.running();

    // It is away, and something happens.
    leave(cloud);
    until("the node knows", || (told(&node) == Some(0)).then_some(())).await;
    let usage = wire::MonitoringData {
        timestamp: Some(std::time::SystemTime::now().into()),
        ram: 4711,
        ..Default::default()
    };
    node.say(Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(usage),
        ..Default::default()
    }))
    .await;
    node.say(system_alert("the disk is on fire")).await;
    come_back(cloud);
    cloud.wait("the alert", |seen| alerted(seen, "on fire"));
    cloud.wait("the measurement", |seen| {
        let usage = seen.received.iter().filter_map(|it| match &it.message {
            Outgoing::Monitoring(data) => Some(&data.nodes),
            _ => None,
        });
        let mut found = usage.flatten().flat_map(|it| &it.items);
        found.any(|it| it.ram == 4711).then_some(())
    });
    until("the node knows", || (told(&node) == Some(1)).then_some(())).await;

    // It is away, something happens, and the daemon dies.
    leave(cloud);
    until("the node knows", || (told(&node) == Some(0)).then_some(())).await;
    node.say(system_alert("the roof is on fire")).await;
    let deadline = tokio::time::Instant::now() + TIME;
    loop {
        // What operators see is kept for the cloud.
        let request = muster_control_api::v1::ListAlertsRequest::default();
        let alerts = cm.control().await.list_alerts(request).await.unwrap();
        if format!("{:?}", alerts.into_inner()).contains("the roof") {
            break;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{}",
            cm.last_words()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cm.kill9();
    let cm = site.start();
    let before = cloud.seen().received.len();
    come_back(cloud);
    cloud.wait("the alert", |seen| alerted(seen, "the roof"));
    cloud.wait("the status again", |seen| {
        let again = Seen {
            received: seen.received[before..].to_vec(),
            ..Seen::default()
        };
        active(&again, "web", 1)
    });
    assert_eq!(node.running(), running, "nothing was touched");
    cm.end();
}
