//! Raised, kept, delivered, dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_alert::{AlertId, AlertSettings, AlertSink, Alerts, Limits};
use muster_api::domain::{Alert, AlertKind, AlertStatus, QuotaParameter};

use crate::rig::*;

async fn waiting(node: &Node) -> Vec<Alert> {
    let batch = node.outbox.next_batch(AlertId::START, 10_000).await;
    batch
        .expect("a batch")
        .into_iter()
        .map(|(_, alert)| alert)
        .collect()
}

async fn are_waiting(node: &Node, count: usize) -> Vec<Alert> {
    let look = || async { Some(waiting(node).await).filter(|alerts| alerts.len() >= count) };
    poll(look, "alerts wait").await
}

fn instance(message: &str) -> Alert {
    Alert {
        kind: AlertKind::Instance {
            instance: ident(),
            version: "1".to_owned(),
            message: message.to_owned(),
        },
        ..system("")
    }
}

fn quota(value: u64) -> Alert {
    Alert {
        kind: AlertKind::SystemQuota {
            parameter: QuotaParameter::Ram,
            value,
            status: AlertStatus::Continue,
        },
        ..system("")
    }
}

#[tokio::test]
async fn alerts_wait_in_order_until_they_are_confirmed_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path(), AlertSettings::default()).await;
    let raised: Vec<Alert> = ["a", "b", "c"]
        .map(system)
        .into_iter()
        .chain([quota(1), instance("d")])
        .collect();
    for alert in &raised {
        node.handle.raise(alert.clone());
    }
    assert_eq!(are_waiting(&node, 5).await, raised);
    node.stop().await;

    let node = Node::start(folder.path(), AlertSettings::default()).await;
    let batch = node
        .outbox
        .next_batch(AlertId::START, 2)
        .await
        .expect("two");
    assert_eq!(
        batch.iter().map(|(_, alert)| alert).collect::<Vec<_>>(),
        [&raised[0], &raised[1]]
    );
    let further = node
        .outbox
        .next_batch(batch[1].0, 2)
        .await
        .expect("two more");
    assert_eq!(further[0].1, raised[2]);
    node.outbox.confirm(batch[1].0).await.expect("confirmed");
    node.stop().await;

    let node = Node::start(folder.path(), AlertSettings::default()).await;
    assert_eq!(waiting(&node).await, raised[2..]);
    let outbox = node.outbox.clone();
    let blocking = tokio::task::spawn_blocking(move || {
        let batch = outbox
            .next_batch_blocking(AlertId::START, 10)
            .expect("a batch");
        outbox.confirm_blocking(batch[2].0).expect("confirmed");
        outbox
            .next_batch_blocking(AlertId::START, 10)
            .expect("none")
            .len()
    });
    assert_eq!(blocking.await.expect("a thread"), 0);
    node.stop().await;
}

#[tokio::test]
async fn what_is_raised_last_before_the_end_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path(), AlertSettings::default()).await;
    for number in 0..100 {
        node.handle.raise(system(&letters(number)));
    }
    node.stop().await;
    let node = Node::start(folder.path(), AlertSettings::default()).await;
    assert_eq!(waiting(&node).await.len(), 100);
    node.stop().await;
}

#[tokio::test]
async fn raising_never_waits_and_what_does_not_fit_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    let settings = AlertSettings {
        queue: 8,
        ..AlertSettings::default()
    };
    let alerts = Alerts::open(store, settings).await.expect("alerts");
    let (handle, outbox) = (alerts.handle(), alerts.outbox());
    // Nobody takes them yet.
    for number in 0..108 {
        handle.raise(system(&letters(number)));
    }
    let stop = muster_telemetry::CancellationToken::new();
    let task = tokio::spawn(alerts.run(stop.clone()));
    let look = || async {
        let batch = outbox
            .next_batch(AlertId::START, 100)
            .await
            .expect("a batch");
        Some(batch).filter(|batch| batch.len() == 9)
    };
    let batch = poll(look, "eight alerts and a word about the others").await;
    assert_eq!(
        text(&batch[8].1),
        "100 alerts were raised faster than they could be kept, and are lost"
    );
    stop.cancel();
    task.await.expect("a task").expect("no error");
}

/// How many alerts one stands for.
fn weight(alert: &Alert) -> u64 {
    text(alert)
        .split_once("(the last of ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .map_or(1, |count| count.parse().expect("a count"))
}

#[tokio::test]
async fn a_flood_becomes_a_few_alerts_that_tell_how_many_and_a_restart_forgets_none() {
    const RAISED: u64 = 2000;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = || AlertSettings {
        merge_window: Duration::from_millis(300),
        queue: 5000,
        ..AlertSettings::default()
    };
    let node = Node::start(folder.path(), settings()).await;
    for number in 0..RAISED {
        node.handle
            .raise(system(&format!("process {number} fails")));
    }
    // Most of them are counted only, when the process ends.
    node.stop().await;
    let node = Node::start(folder.path(), settings()).await;
    let look = || async {
        let alerts = waiting(&node).await;
        (alerts.iter().map(weight).sum::<u64>() == RAISED).then_some(alerts)
    };
    let alerts = poll(look, "all alerts are told or counted").await;
    assert!(alerts.len() <= 20, "{} alerts", alerts.len());
    assert_eq!(text(&alerts[0]), "process 0 fails");
    let last = text(alerts.last().expect("some"));
    assert!(
        last.starts_with(&format!("process {} fails (the last of ", RAISED - 1)),
        "{last}"
    );
    node.stop().await;
}

#[tokio::test]
async fn the_newest_of_too_many_are_kept_the_important_longest_and_the_rest_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = || AlertSettings {
        keep: Limits {
            entries: 10,
            bytes: 1 << 20,
        },
        ..AlertSettings::default()
    };
    let node = Node::start(folder.path(), settings()).await;
    node.handle.raise(quota(7));
    node.handle.raise(system("early"));
    for number in 0..50 {
        node.handle.raise(instance(&letters(number)));
    }
    node.handle.raise(system("late"));
    let look = || async {
        let alerts = waiting(&node).await;
        alerts
            .last()
            .is_some_and(|alert| text(alert) == "late")
            .then_some(alerts)
    };
    let alerts = poll(look, "the last one is kept").await;
    assert_eq!(alerts.len(), 10);
    assert_eq!(
        (&alerts[0].kind, text(&alerts[1])),
        (&quota(7).kind, "early")
    );
    let kept: Vec<_> = alerts[2..9].iter().map(text).collect();
    assert_eq!(kept, (43..50).map(letters).collect::<Vec<_>>());

    // There is room when some of them have arrived, also if that is noticed by the next process only.
    node.stop().await;
    let node = Node::start(folder.path(), settings()).await;
    let batch = node
        .outbox
        .next_batch(AlertId::START, 2)
        .await
        .expect("two");
    node.outbox.confirm(batch[1].0).await.expect("confirmed");
    let told = node.take_until("(ever dropped: 43 instance)").await;
    assert_eq!(
        text(told.last().expect("a word about it")),
        "43 alerts were dropped because too many waited for the controller (ever dropped: 43 instance)"
    );
    // Told once.
    node.handle.raise(system("next"));
    assert_eq!(node.take_until("next").await.len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn bytes_are_bounded_as_well_and_texts_are_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AlertSettings {
        keep: Limits {
            entries: 1000,
            bytes: 10_000,
        },
        message_bytes: 1000,
        ..AlertSettings::default()
    };
    let node = Node::start(folder.path(), settings).await;
    for number in 0..30 {
        let long = format!("{} {}", letters(number), "x".repeat(5000));
        node.handle.raise(system(&long));
    }
    node.handle.raise(system("last"));
    let look = || async {
        let alerts = waiting(&node).await;
        alerts
            .last()
            .is_some_and(|alert| text(alert) == "last")
            .then_some(alerts)
    };
    let alerts = poll(look, "the last one is kept").await;
    assert!((8..=10).contains(&alerts.len()), "{}", alerts.len());
    assert!(alerts.iter().all(|alert| text(alert).len() <= 1000));
    assert!(text(&alerts[0]).ends_with("x..."));
    let mut kinds = BTreeMap::new();
    let dropped = 31 - alerts.len();
    let told = format!("(ever dropped: {dropped} system)");
    for alert in node.take_until(&told).await {
        *kinds.entry(text(&alert).len()).or_insert(0) += 1;
    }
    assert_eq!(kinds.get(&1000), Some(&(alerts.len() - 1)));
    node.stop().await;
}
