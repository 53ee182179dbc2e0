//! A cloud that is away for long, and one whose link does not last.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use muster_api::servicemanager::v5 as wire;
use muster_cloud::message::Outgoing;
use muster_cloud::message::telemetry::Alert;
use muster_cloud::testing::Seen;
use muster_control_api::v1;
use serde_json::json;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use super::scene::{Scene, active, alerts, come_back, leave, plain_item, system_alert, told};
use crate::rig::until;

/// A sample that can be told from others by its number, and is about 1 KiB long.
fn sample(number: u64) -> Said {
    let partition = |it| wire::PartitionUsage {
        name: format!("a-partition-with-a-long-name-{it}"),
        used_size: number,
    };
    let usage = wire::MonitoringData {
        timestamp: Some(SystemTime::now().into()),
        ram: number,
        partitions: (0..16).map(partition).collect(),
        ..Default::default()
    };
    Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(usage),
        ..Default::default()
    })
}

/// The numbers of the samples that have arrived.
fn samples(seen: &Seen) -> Vec<u64> {
    let messages = seen.once("monitoringData").into_iter();
    let nodes = messages.filter_map(|it| match &it.message {
        Outgoing::Monitoring(data) => Some(data.nodes.clone()),
        _ => None,
    });
    let items = nodes.flatten().flat_map(|it| it.items);
    items.map(|it| it.ram).collect()
}

/// The texts of system alerts that have arrived, in order.
fn complaints(seen: &Seen) -> Vec<String> {
    let texts = alerts(seen).into_iter().filter_map(|it| match it {
        Alert::SystemAlert { message, .. } => Some(message),
        _ => None,
    });
    texts.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_absence_costs_measurements_and_no_alert_and_the_loss_is_told() {
    const ALERTS: u64 = 150;
    const SAMPLES: u64 = 600;
    let scene = Scene::new()
        .set("cloudBufferSize", json!(192 * 1024))
        // Each sample is kept by itself.
        .set("monitoring", json!({"sendPeriod": "1ms"}));
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cloud.wait("a connection", |seen| seen.connected.then_some(()));
    leave(cloud);
    until("the node knows", || (told(&node) == Some(0)).then_some(())).await;
    let text = |number| format!("alert {number}");
    for number in 0..SAMPLES {
        if number % 20 == 0 {
            // The rhythm in which nodes measure, much faster.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        node.say(sample(number)).await;
        if number % (SAMPLES / ALERTS) == 0 {
            let number = number / (SAMPLES / ALERTS);
            node.say(system_alert(&text(number))).await;
        }
    }
    // What operators see of alerts is kept for the cloud, and so is everything that was said before.
    let last = text(ALERTS - 1);
    let deadline = Instant::now() + crate::rig::TIME;
    loop {
        let request = v1::ListAlertsRequest::default();
        let shown = cm.control().await.list_alerts(request).await.unwrap();
        if format!("{:?}", shown.into_inner()).contains(&last) {
            break;
        }
        assert!(Instant::now() < deadline, "{}", cm.last_words());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cm.kill9();
    let cm = site.start();
    come_back(cloud);
    let seen = cloud.wait("the last alert and the word about losses", |seen| {
        let all = complaints(seen).contains(&last) && lost(seen).is_some();
        all.then(|| seen.clone())
    });
    let expected: Vec<String> = (0..ALERTS).map(text).collect();
    assert_eq!(complaints(&seen), expected, "every one, once, in order");
    let seen = cloud.wait("measurements", |seen| {
        (!samples(seen).is_empty()).then(|| seen.clone())
    });
    let losses = lost(&seen).unwrap();
    assert!(
        losses.contains("monitoring") && !losses.contains("alerts"),
        "{losses}"
    );
    let count = losses.rsplit(' ').next().unwrap();
    let count: u64 = count.parse().unwrap();
    assert!(count > 0 && count < SAMPLES, "{losses}");

    // Thinned, not cut off: what is left is from all of the time.
    node.say(sample(SAMPLES)).await;
    let seen = cloud.wait("the newest sample", |seen| {
        samples(seen).contains(&SAMPLES).then(|| seen.clone())
    });
    let arrived: BTreeSet<u64> = samples(&seen).into_iter().collect();
    assert_eq!(arrived.len(), samples(&seen).len(), "none twice");
    let left = u64::try_from(arrived.len()).unwrap();
    assert!(left < SAMPLES, "{left}");
    for part in 0..4 {
        let (from, to) = (part * SAMPLES / 4, (part + 1) * SAMPLES / 4);
        assert!(
            arrived.range(from..to).next().is_some(),
            "none of {from} to {to}: {arrived:?}"
        );
    }
    cm.end();
}

/// What was lost, in words.
fn lost(seen: &Seen) -> Option<String> {
    alerts(seen).into_iter().find_map(|it| match it {
        Alert::CoreAlert { message, .. } if message.contains("were dropped") => Some(message),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_over_a_link_that_is_cut_every_second_is_applied_exactly_once() {
    const CUTS: u64 = 30;
    // Whoever has the blobs takes his time, so that the link is cut while they are asked for.
    let items = [("web", plain_item()), ("worker", plain_item())];
    let scene = Scene::with(&items, Duration::from_millis(2500));
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cm.until_nodes(1).await;
    let txn = cloud.send(scene.wish(&[("web", 1), ("worker", 2)]), None);
    for cut in 0..CUTS {
        // Some links break while they are made, or in the middle of a message; others live for a moment.
        if cut % 3 == 2 {
            cloud.behave(|it| it.cut_after.push_back(300 + 97 * cut));
        }
        cloud.wait(&format!("connection {cut}"), |seen| {
            (seen.connected || cut % 3 == 2).then_some(())
        });
        tokio::time::sleep(Duration::from_millis(100 * (cut % 10))).await;
        cloud.cut();
    }
    cloud.wait("active instances", |seen| {
        active(seen, "web", 1)?;
        active(seen, "worker", 2)
    });
    cloud.wait("an acknowledgement", |seen| {
        seen.acknowledged.contains(&txn).then_some(())
    });
    let seen = cloud.seen();
    assert!(
        seen.connections >= CUTS / 2,
        "{} connections",
        seen.connections
    );
    assert_eq!(seen.problems, Vec::<String>::new());
    let request = v1::GetDesiredRequest::default();
    let desired = cm
        .control()
        .await
        .get_desired(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (desired.update_id, desired.history.len()),
        (1, 1),
        "{desired:#?}"
    );
    let starts: BTreeSet<u64> = node.running().values().map(|it| it.start).collect();
    assert_eq!(
        starts,
        BTreeSet::from([1, 2, 3]),
        "nothing was started twice"
    );
    cm.end();
}
