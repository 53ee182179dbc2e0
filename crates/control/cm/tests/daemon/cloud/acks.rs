//! Acknowledgements and refusals, of both sides.

use std::collections::BTreeSet;

use muster_cloud::message::Identity;
use muster_cloud::message::incoming::{LogFilter, LogType, RequestLog};
use muster_cloud::testing::{Reaction, Seen};
use serde_json::json;

use super::scene::{Scene, active, alerted, answers, system_alert};

/// How often a message of the type came under the name of the first of them.
fn repetitions(seen: &Seen, message_type: &str) -> usize {
    let of_type = |it: &&muster_cloud::testing::Received| it.message.message_type() == message_type;
    let mut all = seen.received.iter().filter(of_type);
    let Some(first) = all.next() else { return 0 };
    1 + all.filter(|it| it.txn == first.txn).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cloud_refuses_or_leaves_open_is_said_again_under_the_same_name() {
    let scene = Scene::new().set("cloudResponseWaitTimeout", json!("200ms"));
    let Scene { cloud, site, .. } = &scene;
    cloud.behave(|it| {
        let refused = Reaction::Nack {
            retry_after: Some(50),
        };
        it.reactions.insert("alerts".to_owned(), refused);
        it.reactions
            .insert("unitStatus".to_owned(), Reaction::Silence);
    });
    let cm = site.start();
    let node = site.node("n1");
    node.say(system_alert("it burns")).await;
    cloud.wait("repetitions", |seen| {
        let enough = |message_type| repetitions(seen, message_type) >= 3;
        (enough("alerts") && enough("unitStatus")).then_some(())
    });
    // A refusal of one kind holds up no other.
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("a request for blobs", |seen| {
        (!seen.once("requestBlobUrls").is_empty()).then_some(())
    });
    cloud.behave(|it| it.reactions.clear());
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    cloud.wait("the alert", |seen| alerted(seen, "it burns"));
    assert_eq!(cloud.seen().problems, Vec::<String>::new());
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_there_is_no_room_for_are_refused_and_answered_when_they_come_again() {
    const REQUESTS: usize = 80;
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    node.set_silent_about_logs(true);
    cm.until_nodes(1).await;
    let request = || RequestLog {
        log_type: LogType::SystemLog,
        filter: LogFilter {
            node_ids: vec![Identity::codename("n1")],
            ..LogFilter::default()
        },
        upload_options: None,
    };
    let names: Vec<String> = (0..REQUESTS).map(|it| format!("log-{it}")).collect();
    let sent: BTreeSet<String> = (names.iter())
        .map(|name| cloud.send(request(), Some(name)))
        .collect();
    cloud.wait("a refusal", |seen| (!seen.refused.is_empty()).then_some(()));
    // The node answers nobody, and then is gone; every request has its end.
    node.set_online(false);
    let seen = cloud.wait("every answer", |seen| {
        let answered = names
            .iter()
            .all(|name| !answers(seen, "pushLog", name).is_empty());
        (answered && seen.acknowledged.is_superset(&sent)).then(|| seen.clone())
    });
    for name in &names {
        assert_eq!(answers(&seen, "pushLog", name).len(), 1, "{name}");
    }
    // And there is room again.
    node.set_silent_about_logs(false);
    node.set_online(true);
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    cm.end();
}
