//! Clouds that do not do what they should.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::message::telemetry::{Alert, LogStatus, PushLog};
use muster_cloud::message::{Base64, Identity, Outgoing, envelope};
use muster_cloud::testing::{Reaction, TestCloud, samples};
use muster_cloud::{ConnectionState, KeepError, Settings};

use crate::rig::{LONG, SYSTEM, Unit, plain, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_not_acknowledged_is_never_given_up() {
    let cloud = TestCloud::start(SYSTEM, None);
    cloud.behave(|it| it.reaction = Reaction::Silence);
    let quick = Settings {
        response_timeout: Duration::from_millis(10),
        ..settings(&cloud)
    };
    let unit = Unit::start(quick, plain()).await;
    unit.link
        .send(samples::numbered(0), None)
        .await
        .expect("kept");
    // The peer gives up after three.
    cloud.wait("five times", |seen| {
        let received = seen.received.iter();
        let count = received
            .filter(|it| it.message.message_type() == "stateRequest")
            .count();
        (count >= 5).then_some(())
    });
    assert_eq!(unit.link.kept().await.expect("a count"), 1);
    cloud.behave(|it| it.reaction = Reaction::Ack);
    unit.drained().await;
    assert_eq!(
        cloud.seen().once("stateRequest").len(),
        1,
        "always under one name"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_message_comes_again_and_holds_up_no_other() {
    let cloud = TestCloud::start(SYSTEM, None);
    let refuse = Reaction::Nack {
        retry_after: Some(20),
    };
    cloud.behave(|it| {
        it.reactions.insert("stateRequest".to_owned(), refuse);
    });
    let unit = Unit::start(settings(&cloud), plain()).await;
    for number in 0..4 {
        unit.link
            .send(samples::numbered(number), None)
            .await
            .expect("kept");
    }
    for message in samples::outgoing() {
        if let Outgoing::PushLog(_) = message {
            unit.link.send(message, None).await.expect("kept");
        }
    }
    unit.link.alerts(&samples::alerts()).await.expect("kept");
    cloud.wait("the others", |seen| {
        let passed = !seen.once("pushLog").is_empty() && !seen.once("alerts").is_empty();
        passed.then_some(())
    });
    cloud.wait("again", |seen| {
        let count = seen
            .received
            .iter()
            .filter(|it| it.message.message_type() == "stateRequest");
        (count.count() > 4).then_some(())
    });
    cloud.behave(|it| it.reactions.clear());
    unit.drained().await;
    assert_eq!(cloud.seen().once("stateRequest").len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_token_has_discovery_asked_again_and_a_wrong_address_is_dropped() {
    let cloud = TestCloud::start(SYSTEM, None);
    cloud.behave(|it| it.refuse_websocket = Some(401));
    let unit = Unit::start(settings(&cloud), plain()).await;
    cloud.wait("discovery again", |seen| {
        (seen.discoveries >= 3).then_some(())
    });
    let state = unit.link.connection().borrow().clone();
    assert!(
        matches!(&state, ConnectionState::Away { problem: Some(problem) } if problem.contains("401")),
        "{state:?}"
    );
    cloud.behave(|it| {
        it.refuse_websocket = None;
        // Nobody listens on the first, the second is protected, and neither is tried for ever.
        it.wrong_addresses = vec![
            "ws://127.0.0.1:1/".to_owned(),
            "wss://127.0.0.1:1/".to_owned(),
        ];
    });
    unit.connected().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn discovery_that_makes_no_sense_is_asked_again() {
    let cloud = TestCloud::start(SYSTEM, None);
    let unit = {
        cloud.behave(|it| it.discovery_body = Some("[1,2".to_owned()));
        Unit::start(settings(&cloud), plain()).await
    };
    let bodies = [
        "{}".to_owned(),
        r#"{"version":6,"systemId":"unit-1","connectionInfo":["ws://x"]}"#.to_owned(),
        r#"{"version":7,"systemId":"other","connectionInfo":["ws://x"]}"#.to_owned(),
        r#"{"version":7,"errorCode":2,"nextRequestDelay":1}"#.to_owned(),
        "x".repeat(1 << 20),
    ];
    for body in bodies {
        let before = cloud.seen().discoveries;
        cloud.behave(|it| it.discovery_body = Some(body));
        cloud.wait("another question", |seen| {
            (seen.discoveries > before + 1).then_some(())
        });
    }
    cloud.behave(|it| it.discovery_body = None);
    unit.connected().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn garbage_changes_nothing_and_what_is_not_understood_is_told() {
    let cloud = TestCloud::start(SYSTEM, None);
    let mut unit = Unit::start(settings(&cloud), plain()).await;
    unit.connected().await;
    let whole =
        |system: &str, data: &str| envelope(system, "t-garbage", Timestamp::UNIX_EPOCH, data);
    cloud.send_raw(b"\xff\xfe".to_vec());
    cloud.send_raw("[".repeat(5000));
    cloud.send_raw(whole("another", r#"{"messageType":"ack"}"#));
    cloud.send_raw(whole(SYSTEM, r#"{"messageType":"ack"}"#));
    cloud.send_raw(whole(
        SYSTEM,
        r#"{"messageType":"nack","retryAfter":18446744073709551615}"#,
    ));
    cloud.send_raw(whole(SYSTEM, "{}"));
    for _ in 0..3 {
        cloud.send_raw(whole(SYSTEM, r#"{"messageType":"surprise"}"#));
        cloud.send_raw(whole(
            SYSTEM,
            r#"{"messageType":"desiredStatus","items":5}"#,
        ));
    }
    let txn = cloud.send(samples::desired_status(), None);
    unit.delivery().await.accept();
    cloud.wait("what was understood", |seen| {
        seen.acknowledged.contains(&txn).then_some(())
    });
    unit.drained().await;
    let seen = cloud.seen();
    let told: Vec<String> = (seen.once("alerts").iter())
        .flat_map(|it| match &it.message {
            Outgoing::Alerts(alerts) => alerts.items.clone(),
            _ => Vec::new(),
        })
        .filter_map(|it| match it {
            Alert::CoreAlert { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2, "once for each: {told:?}");
    assert!(told.iter().any(|it| it.contains("surprise")), "{told:?}");
    assert!(
        told.iter().any(|it| it.contains("items")),
        "it says where: {told:?}"
    );
    assert!(
        seen.acknowledged.contains("t-garbage"),
        "it would not be understood later either"
    );
    assert_eq!(seen.connections, 1, "none of it ends the connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_message_that_is_too_long_ends_the_connection_and_no_more() {
    let cloud = TestCloud::start(SYSTEM, None);
    let small = Settings {
        largest_message: 100_000,
        ..settings(&cloud)
    };
    let mut unit = Unit::start(small, plain()).await;
    unit.connected().await;
    cloud.send_raw(vec![b' '; 200_000]);
    cloud.wait("another connection", |seen| {
        (seen.connections >= 2 && seen.connected).then_some(())
    });
    cloud.send(samples::desired_status(), None);
    unit.delivery().await.accept();

    let log = PushLog {
        node: Identity::codename("main"),
        part: 1,
        parts_count: 1,
        content: Base64(vec![0; 100_000]),
        status: LogStatus::Ok,
        error_info: None,
    };
    let refused = unit.link.send(log, None).await;
    assert!(
        matches!(refused, Err(KeepError::TooLarge { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cloud_that_does_not_read_is_left() {
    let cloud = TestCloud::start(SYSTEM, None);
    let impatient = Settings {
        io_timeout: Duration::from_millis(300),
        ping_after: Duration::from_millis(300),
        ..settings(&cloud)
    };
    let unit = Unit::start(impatient, plain()).await;
    unit.connected().await;
    cloud.behave(|it| it.deaf = true);
    let mut connection = unit.link.connection();
    let away = connection.wait_for(|it| matches!(it, ConnectionState::Away { .. }));
    tokio::time::timeout(LONG, away)
        .await
        .expect("in time")
        .expect("the link runs");
    unit.link
        .send(samples::numbered(0), None)
        .await
        .expect("keeping does not wait for the cloud");
    cloud.behave(|it| it.deaf = false);
    unit.drained().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_dropped_or_refused_by_its_receiver_is_sent_again() {
    let cloud = TestCloud::start(SYSTEM, None);
    let mut unit = Unit::start(settings(&cloud), plain()).await;
    let txn = cloud.send(samples::desired_status(), None);
    drop(unit.delivery().await);
    unit.delivery().await.refuse(Duration::from_millis(10));
    unit.delivery().await.accept();
    let seen = cloud.wait("an acknowledgement", |seen| {
        seen.acknowledged.contains(&txn).then(|| seen.clone())
    });
    assert_eq!(seen.refused, [txn.as_str(), txn.as_str()]);
}
