//! Connections that end at any moment, and Units that do.

use std::collections::BTreeMap;

use muster_cloud::message::Outgoing;
use muster_cloud::message::telemetry::Alert;
use muster_cloud::testing::{Reaction, Seen, TestCloud, samples};
use muster_cloud::{Class, Settings};

use crate::rig::{SYSTEM, Unit, plain, settings};

/// The numbers of messages in the order of their first arrival, and by name what they say.
fn arrived(seen: &Seen) -> (Vec<u64>, BTreeMap<String, u64>) {
    let mut names = BTreeMap::new();
    let mut order = Vec::new();
    for received in seen.once("stateRequest") {
        let Outgoing::StateRequest(request) = &received.message else {
            continue;
        };
        order.push(request.instance);
        names.insert(received.txn.clone(), request.instance);
    }
    (order, names)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cuts_at_any_byte_lose_nothing_and_keep_the_order() {
    const COUNT: u64 = 60;
    let cloud = TestCloud::start(SYSTEM, None);
    // From the handshake on, through headers and messages of both directions.
    let cuts: Vec<u64> = (0..60).map(|number| 150 + number * 97).collect();
    cloud.behave(|it| it.cut_after = cuts.iter().copied().collect());
    let mut unit = Unit::start(settings(&cloud), plain()).await;
    let from_cloud: Vec<String> = (0..10)
        .map(|_| cloud.send(samples::desired_status(), None))
        .collect();
    for number in 0..COUNT {
        unit.link
            .send(samples::numbered(number), None)
            .await
            .expect("kept");
    }
    for _ in 0..10 {
        unit.delivery().await.accept();
    }
    unit.drained().await;
    let seen = cloud.wait("everything", |seen| {
        let all = from_cloud.iter().all(|it| seen.acknowledged.contains(it));
        all.then(|| seen.clone())
    });
    let (order, names) = arrived(&seen);
    assert_eq!(
        order,
        (0..COUNT).collect::<Vec<_>>(),
        "in order, nothing lost"
    );
    assert_eq!(names.len(), order.len(), "under one name each");
    assert!(seen.connections > 5, "{} connections", seen.connections);
    assert!(unit.deliveries.try_recv().is_err(), "handed on once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_unit_that_ends_in_the_middle_sends_again_what_was_not_acknowledged() {
    const COUNT: u64 = 40;
    let cloud = TestCloud::start(SYSTEM, None);
    let mut folder = tempfile::tempdir().expect("a folder");
    let mut next = 0;
    for round in 0..8 {
        // Some rounds nothing is acknowledged, and some are cut.
        cloud.behave(|it| {
            it.reaction = match round % 2 {
                0 => Reaction::Silence,
                _ => Reaction::Ack,
            };
        });
        let unit = Unit::start_in(folder, settings(&cloud), plain()).await;
        for _ in 0..COUNT / 8 {
            unit.link
                .send(samples::numbered(next), None)
                .await
                .expect("kept");
            unit.link
                .alerts(&[samples::alert(next)])
                .await
                .expect("kept");
            next += 1;
        }
        unit.connected().await;
        folder = unit.stop().await;
    }
    cloud.behave(|it| it.reaction = Reaction::Ack);
    let unit = Unit::start_in(folder, settings(&cloud), plain()).await;
    unit.drained().await;
    let seen = cloud.seen();
    let (order, names) = arrived(&seen);
    assert_eq!(order, (0..COUNT).collect::<Vec<_>>());
    assert_eq!(names.len(), order.len(), "names last over restarts");
    let mut alerts = Vec::new();
    for received in seen.once("alerts") {
        if let Outgoing::Alerts(found) = &received.message {
            alerts.extend(found.items.iter().map(|it| match it {
                Alert::SystemQuotaAlert { value, .. } => *value,
                other => panic!("{other:?}"),
            }));
        }
    }
    assert_eq!(alerts, (0..COUNT).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cloud_that_is_away_costs_old_monitoring_first_and_all_loss_is_told() {
    let cloud = TestCloud::start(SYSTEM, None);
    cloud.behave(|it| it.discovery_status = Some(503));
    let small = Settings {
        kept_bytes: 100_000,
        ..settings(&cloud)
    };
    let unit = Unit::start(small, plain()).await;
    for number in 0..300 {
        let usage = samples::monitoring(number);
        unit.link.send(usage, None).await.expect("kept");
        let alert = samples::alert(number);
        unit.link.alerts(&[alert]).await.expect("kept");
    }
    let big: Vec<String> = (0..30).map(|_| "x".repeat(1500)).collect();
    for (number, text) in (0u64..).zip(&big) {
        let mut state = samples::numbered(number);
        state.item.title = Some(text.clone());
        unit.link.send(state, None).await.expect("kept");
    }
    let losses = unit.link.losses().await.expect("a count");
    assert!(losses.contains_key(&Class::Monitoring), "{losses:?}");
    assert!(!losses.contains_key(&Class::Alerts), "{losses:?}");
    cloud.behave(|it| it.discovery_status = None);
    unit.connected().await;
    unit.drained().await;
    let told = cloud.wait("what was lost", |seen| {
        seen.received.iter().find_map(|it| match &it.message {
            Outgoing::Alerts(alerts) => alerts.items.iter().find_map(|it| match it {
                Alert::CoreAlert { message, .. } => Some(message.clone()),
                _ => None,
            }),
            _ => None,
        })
    });
    let expected = format!("monitoring {}", losses[&Class::Monitoring].entries);
    assert!(told.contains(&expected), "{told}: {losses:?}");
    let alerts: usize = (cloud.seen().once("alerts").iter())
        .map(|it| match &it.message {
            Outgoing::Alerts(alerts) => alerts.items.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(alerts, 301, "every alert, and the one about losses");
    let answers = cloud.seen().once("stateRequest").len();
    let lost = losses.get(&Class::Answers).map_or(0, |it| it.entries);
    assert_eq!(u64::try_from(answers).expect("few") + lost, 30);
    let measured: usize = (cloud.seen().once("monitoringData").iter())
        .map(|it| match &it.message {
            Outgoing::Monitoring(data) => data.nodes[0].items.len(),
            _ => 0,
        })
        .sum();
    let lost = losses[&Class::Monitoring].entries;
    assert_eq!(u64::try_from(measured).expect("few") + lost, 300);
}
