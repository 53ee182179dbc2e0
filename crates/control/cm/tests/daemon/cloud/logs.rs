//! Logs that the cloud asks for.

use std::io::Read as _;
use std::time::{Duration, SystemTime};

use muster_api::servicemanager::v5 as wire;
use muster_cloud::message::incoming::{LogFilter, LogType, RequestLog, UploadOptions, UploadType};
use muster_cloud::message::telemetry::{LogStatus, PushLog};
use muster_cloud::message::{Identity, Outgoing, Timestamp};
use muster_cloud::testing::TestCloud;
use wire::sm_incoming_messages::SmIncomingMessage as Command;

use super::scene::{Scene, answers};

fn request(log_type: LogType, nodes: &[&str]) -> RequestLog {
    RequestLog {
        log_type,
        filter: LogFilter {
            node_ids: nodes.iter().map(|it| Identity::codename(*it)).collect(),
            ..LogFilter::default()
        },
        upload_options: None,
    }
}

/// Waits for so many parts of an answer.
fn parts(cloud: &TestCloud, correlation: &str, count: usize) -> Vec<PushLog> {
    let parts = cloud.wait(&format!("the parts of {correlation}"), |seen| {
        let found = answers(seen, "pushLog", correlation);
        (found.len() >= count).then_some(found)
    });
    let parts: Vec<PushLog> = (parts.into_iter())
        .filter_map(|it| match it.message {
            Outgoing::PushLog(part) => Some(part),
            _ => None,
        })
        .collect();
    assert_eq!(parts.len(), count, "{parts:#?}");
    parts
}

fn unpacked(part: &PushLog) -> String {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(part.content.0.as_slice());
    reader.read_to_string(&mut text).unwrap();
    text
}

/// The failure of a log, in words.
fn failure(part: &PushLog) -> &str {
    assert_eq!(part.status, LogStatus::Error);
    assert!(part.content.0.is_empty());
    &part.error_info.as_ref().unwrap().message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_every_kind_come_back_in_parts_under_the_name_of_the_request() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let (one, _other) = (site.node("n1"), site.node("n2"));
    cm.until_nodes(2).await;

    // Of all nodes that are there, if none is named.
    cloud.send(request(LogType::SystemLog, &[]), Some("system"));
    let mut found = parts(cloud, "system", 2);
    found.sort_by_key(|it| it.node.name().map(str::to_owned));
    let texts: Vec<String> = found.iter().map(unpacked).collect();
    assert_eq!(texts, ["the log of n1\n", "the log of n2\n"]);
    assert!(found.iter().all(|it| it.status == LogStatus::Ok));

    // With everything that limits it.
    let from = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let till = from + Duration::from_secs(60);
    let mut narrow = request(LogType::InstanceLog, &["n1"]);
    narrow.filter.from = Some(Timestamp::try_from(from).unwrap());
    narrow.filter.till = Some(Timestamp::try_from(till).unwrap());
    narrow.filter.item = Some(Identity::id("web"));
    narrow.filter.subject = Some(Identity::id("driver"));
    narrow.filter.instance = Some(3);
    cloud.send(narrow, Some("instances"));
    let found = parts(cloud, "instances", 2);
    let order: Vec<(u64, u64)> = found.iter().map(|it| (it.part, it.parts_count)).collect();
    assert_eq!(order, [(1, 2), (2, 2)]);
    assert_eq!(unpacked(&found[1]), "and more\n");
    let asked = one.commands().into_iter().find_map(|it| match it {
        Command::InstanceLogRequest(request) => Some(request),
        _ => None,
    });
    let asked = asked.unwrap();
    assert_eq!(
        (asked.from, asked.till),
        (Some(from.into()), Some(till.into()))
    );
    let filter = asked.filter.unwrap();
    assert_eq!(
        (filter.item_id.as_str(), filter.subject_id.as_str()),
        ("web", "driver")
    );
    assert_eq!(filter.instance, 3);

    cloud.send(request(LogType::CrashLog, &["n2"]), Some("crashes"));
    assert_eq!(unpacked(&parts(cloud, "crashes", 1)[0]), "crashes on n2\n");
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_had_says_why() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cm.until_nodes(1).await;

    cloud.send(request(LogType::SystemLog, &["n9"]), Some("nobody"));
    let found = parts(cloud, "nobody", 1);
    assert_eq!(found[0].node.name(), Some("n9"));
    assert!(failure(&found[0]).contains("n9"), "{found:?}");

    // Where to is said, how is not: nothing is uploaded past this link.
    let mut elsewhere = request(LogType::SystemLog, &["n1"]);
    elsewhere.upload_options = Some(UploadOptions {
        kind: UploadType::Https,
        url: Some("https://logs.example".to_owned()),
        bearer_token: Some("hunter2".to_owned().into()),
        bearer_token_ttl: None,
    });
    cloud.send(elsewhere, Some("elsewhere"));
    let found = parts(cloud, "elsewhere", 1);
    assert!(
        failure(&found[0]).contains("over this link only"),
        "{found:?}"
    );
    assert!(!cm.log().contains("hunter2"));

    // A node that leaves in the middle.
    node.set_silent_about_logs(true);
    cloud.send(request(LogType::SystemLog, &["n1"]), Some("left"));
    let asked = || {
        let mut commands = node.commands().into_iter();
        commands
            .any(|it| matches!(it, Command::SystemLogRequest(_)))
            .then_some(())
    };
    crate::rig::until("the request", asked).await;
    node.set_online(false);
    let found = parts(cloud, "left", 1);
    assert!(failure(&found[0]).contains("disconnected"), "{found:?}");
    cm.end();
}
