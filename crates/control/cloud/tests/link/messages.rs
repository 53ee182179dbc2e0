//! Every message, both ways.

use std::sync::Arc;

use muster_cloud::message::incoming::BlobUrls;
use muster_cloud::message::outgoing::RequestBlobUrls;
use muster_cloud::message::{Incoming, Outgoing};
use muster_cloud::testing::{TestCloud, samples};
use muster_cloud::{Extent, RequestError, Settings};

use crate::rig::{SYSTEM, Unit, plain, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_message_of_the_cloud_arrives_and_is_acknowledged_when_it_is_accepted() {
    let cloud = TestCloud::start(SYSTEM, None);
    let mut unit = Unit::start(settings(&cloud), plain()).await;
    for message in samples::incoming() {
        if matches!(message, Incoming::BlobUrls(_)) {
            continue;
        }
        let txn = cloud.send(message.clone(), Some("c-1"));
        let delivery = unit.delivery().await;
        assert_eq!(delivery.message, message);
        assert_eq!(delivery.correlation.as_deref(), Some("c-1"));
        assert!(!cloud.seen().acknowledged.contains(&txn), "not before");
        delivery.accept();
        cloud.wait("an acknowledgement", |seen| {
            seen.acknowledged.contains(&txn).then_some(())
        });
    }
    assert_eq!(cloud.seen().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_message_of_the_unit_arrives_once() {
    let cloud = TestCloud::start(SYSTEM, None);
    let unit = Unit::start(settings(&cloud), plain()).await;
    for message in samples::outgoing() {
        match message {
            Outgoing::UnitStatus(status) => unit.link.publish(Arc::new(status), Extent::Full),
            Outgoing::Monitoring(data) => unit.link.monitoring(data),
            Outgoing::RequestBlobUrls(asked) => {
                let link = unit.link.clone();
                tokio::spawn(async move { link.blob_urls(asked.digests).await });
            }
            other => unit.link.send(other, Some("c-2")).await.expect("kept"),
        }
    }
    let seen = cloud.wait("all of them", |seen| {
        let all = Outgoing::TYPES.iter().all(|it| !seen.once(it).is_empty());
        all.then(|| seen.clone())
    });
    unit.drained().await;
    for message in samples::outgoing() {
        let found = seen.once(message.message_type());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, message);
        match message {
            Outgoing::PushLog(_) | Outgoing::NewState(_) | Outgoing::StartProvisioning(_) => {
                assert_eq!(found[0].correlation.as_deref(), Some("c-2"));
            }
            _ => {}
        }
    }
    assert_eq!(seen.received.len(), Outgoing::TYPES.len(), "none twice");
    assert_eq!(seen.problems, Vec::<String>::new());
    assert_eq!(unit.link.kept().await.expect("a count"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_gets_its_own_answer() {
    let cloud = TestCloud::start(SYSTEM, None);
    cloud.behave(|it| {
        for number in 0..20 {
            let digest = format!("sha256:{number}");
            it.blobs.insert(digest.clone(), samples::blob(&digest));
        }
    });
    let unit = Unit::start(settings(&cloud), plain()).await;
    // An answer to what nobody asked is acknowledged and of no consequence.
    let stray = cloud.send(BlobUrls::default(), Some("nobody"));
    let asked = (0..20).map(|number| {
        let link = unit.link.clone();
        let digest = format!("sha256:{number}");
        tokio::spawn(async move {
            let digests = vec![digest.clone(), "sha256:none".to_owned()];
            (link.blob_urls(digests).await.expect("an answer"), digest)
        })
    });
    for answer in asked.collect::<Vec<_>>() {
        let (infos, digest) = answer.await.expect("no panic");
        assert_eq!(infos, [samples::blob(&digest)]);
    }
    cloud.wait("an acknowledgement", |seen| {
        seen.acknowledged.contains(&stray).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_survives_a_cut_and_ends_in_time() {
    let cloud = TestCloud::start(SYSTEM, None);
    cloud.behave(|it| it.keep_blobs = true);
    let short = std::time::Duration::from_millis(500);
    let impatient = Settings {
        request_timeout: short,
        ..settings(&cloud)
    };
    let unit = Unit::start(impatient, plain()).await;
    let late = unit.link.blob_urls(vec!["sha256:1".to_owned()]).await;
    assert!(matches!(late, Err(RequestError::Late { .. })), "{late:?}");
    unit.stop().await;

    let unit = Unit::start(settings(&cloud), plain()).await;
    let link = unit.link.clone();
    let asked = tokio::spawn(async move { link.blob_urls(vec!["sha256:7".to_owned()]).await });
    let is_it = |message: &Outgoing| match message {
        Outgoing::RequestBlobUrls(RequestBlobUrls { digests }) => digests == &["sha256:7"],
        _ => false,
    };
    cloud.wait("the request", |seen| {
        seen.received
            .iter()
            .any(|it| is_it(&it.message))
            .then_some(())
    });
    cloud.behave(|it| {
        it.keep_blobs = false;
        it.blobs
            .insert("sha256:7".to_owned(), samples::blob("sha256:7"));
    });
    cloud.cut();
    let answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(answer, [samples::blob("sha256:7")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_status_is_said_in_full_after_every_connection_and_as_changes_between() {
    let cloud = TestCloud::start(SYSTEM, None);
    let unit = Unit::start(settings(&cloud), plain()).await;
    let mut status = samples::unit_status();
    unit.link.publish(Arc::new(status.clone()), Extent::Changes);
    let statuses = |count: usize| {
        cloud.wait("a status", |seen| {
            let found = seen.once("unitStatus");
            (found.len() == count).then(|| match &found[count - 1].message {
                Outgoing::UnitStatus(status) => status.clone(),
                other => panic!("{other:?}"),
            })
        })
    };
    assert_eq!(statuses(1), status);
    status.items.as_mut().expect("items")[0].version = "2.0.0".to_owned();
    status
        .items
        .as_mut()
        .expect("items")
        .push(samples::unit_status().items.expect("items")[0].clone());
    unit.link.publish(Arc::new(status.clone()), Extent::Changes);
    let changes = statuses(2);
    assert!(changes.is_delta_info);
    assert_eq!(changes.items.expect("items").len(), 1);
    assert_eq!(changes.nodes, None);
    cloud.cut();
    let again = statuses(3);
    assert_eq!(again, status, "all of it");
}
