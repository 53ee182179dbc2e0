//! States of instances: shown to the cloud, accepted, rejected, and replaced by it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_cloud::message::incoming::{StateAcceptance, StateResult, UpdateState};
use muster_cloud::message::outgoing::{NewState, StateRequest};
use muster_cloud::message::{Checksum, Identity, Outgoing};
use muster_cloud::testing::{Seen, TestCloud};
use serde_json::json;

use super::scene::{Scene, active, alerted, come_back, known, leave};
use crate::rig::until;

/// A Unit whose item `web` keeps a state.
fn scene() -> Scene {
    let item = json!({"runtimes": [{"codename": "runc"}], "quotas": {"stateLimit": 4096}});
    Scene::with(&[("web", item)], Duration::ZERO)
}

fn file(scene: &Scene) -> PathBuf {
    scene.site.path("states").join("web/driver/0/state.dat")
}

fn checksum(text: &str) -> Checksum {
    let checksum = muster_instance_data::Checksum::of(text.as_bytes());
    Checksum(checksum.as_bytes().to_vec())
}

/// Writes as an instance does, into the file that it has mounted.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// Waits until the cloud is shown a state.
fn shown(cloud: &TestCloud, text: &str) -> NewState {
    cloud.wait(&format!("the state {text:?}"), |seen| {
        let mut states = seen.received.iter().filter_map(|it| match &it.message {
            Outgoing::NewState(state) => Some(state),
            _ => None,
        });
        states.rfind(|it| it.state == text).cloned()
    })
}

fn requests(seen: &Seen) -> Vec<StateRequest> {
    let requests = seen.once("stateRequest").into_iter();
    let requests = requests.filter_map(|it| match &it.message {
        Outgoing::StateRequest(request) => Some(request.clone()),
        _ => None,
    });
    requests.collect()
}

fn answer(cloud: &TestCloud, text: &str, result: StateResult) {
    let answer = StateAcceptance {
        item: Identity::id("web"),
        subject: Identity::id("driver"),
        instance: 0,
        checksum: checksum(text),
        result,
        reason: "a test".to_owned(),
    };
    cloud.send(answer, None);
}

fn update(text: &str) -> UpdateState {
    UpdateState {
        item: Identity::id("web"),
        subject: Identity::id("driver"),
        instance: 0,
        state_checksum: checksum(text),
        state: text.to_owned(),
    }
}

/// What the status says that the cloud has.
fn reported(seen: &Seen) -> Option<Checksum> {
    let known = known(seen);
    let instances = known
        .instances
        .iter()
        .flatten()
        .flat_map(|it| &it.instances);
    let mut checksums = instances.filter_map(|it| it.state_checksum.clone());
    checksums.next()
}

fn until_reported(cloud: &TestCloud, text: &str) {
    let wanted = Some(checksum(text));
    cloud.wait(&format!("the checksum of {text:?}"), |seen| {
        (reported(seen) == wanted).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_shown_and_told_as_accepted_when_the_cloud_says_so() {
    let scene = scene();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    let running = node.running();
    let path = &running["web:driver:0"].info.state_path;
    assert_eq!(path, "web/driver/0/state.dat");
    // What it starts with is a state, too.
    shown(cloud, "");
    answer(cloud, "", StateResult::Accepted);
    until_reported(cloud, "");

    write(&file(&scene), "level 1");
    let new = shown(cloud, "level 1");
    assert_eq!(new.state_checksum, checksum("level 1"));
    assert_eq!(
        (new.item.name(), new.subject.name()),
        (Some("web"), Some("driver"))
    );
    assert_eq!(new.instance, 0);
    // An answer about another state changes nothing.
    answer(cloud, "level 0", StateResult::Accepted);
    answer(cloud, "level 1", StateResult::Accepted);
    until_reported(cloud, "level 1");
    assert_eq!(requests(&cloud.seen()), []);
    assert_eq!(node.running(), running, "nothing was touched");

    // Shown while the cloud is away, and after a kill the newest one.
    leave(cloud);
    write(&file(&scene), "level 2");
    cm.kill9();
    write(&file(&scene), "level 3");
    let cm = site.start();
    come_back(cloud);
    shown(cloud, "level 3");
    let wrong = Some(checksum("level 3"));
    assert_ne!(reported(&cloud.seen()), wrong, "nobody has accepted it");
    answer(cloud, "level 3", StateResult::Accepted);
    until_reported(cloud, "level 3");
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_state_is_asked_for_and_replaced_in_place() {
    let scene = scene();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let _node = site.node("n1");
    cloud.send(scene.wish(&[("web", 1)]), None);
    shown(cloud, "");
    answer(cloud, "", StateResult::Accepted);
    until_reported(cloud, "");

    let inode = fs::metadata(file(&scene)).unwrap().ino();
    write(&file(&scene), "cheated");
    shown(cloud, "cheated");
    answer(cloud, "cheated", StateResult::Rejected);
    let request = cloud.wait("a request", |seen| requests(seen).pop());
    assert_eq!((request.item.name(), request.instance), (Some("web"), 0));
    assert!(!request.default);
    let txn = cloud.send(update("honest"), None);
    until_reported(cloud, "honest");
    cloud.wait("an acknowledgement", |seen| {
        seen.acknowledged.contains(&txn).then_some(())
    });
    let now = || fs::read_to_string(file(&scene)).unwrap();
    assert_eq!(now(), "honest");
    let same = fs::metadata(file(&scene)).unwrap().ino();
    assert_eq!(same, inode, "the instance has this file mounted");

    // What cannot be right is not written, and the cloud is told why.
    let mut wrong = update("forged");
    wrong.state_checksum = checksum("other");
    cloud.send(wrong, None);
    cloud.wait("a complaint", |seen| alerted(seen, "was said to have"));
    let mut of_nobody = update("lost");
    of_nobody.instance = 7;
    cloud.send(of_nobody, None);
    cloud.wait("a complaint", |seen| alerted(seen, "keeps no state"));
    let long = "x".repeat(5000);
    cloud.send(update(&long), None);
    cloud.wait("a complaint", |seen| alerted(seen, "may have 4096"));
    assert_eq!(now(), "honest");

    // It goes on from there.
    write(&file(&scene), "level 4");
    shown(cloud, "level 4");
    answer(cloud, "level 4", StateResult::Accepted);
    until_reported(cloud, "level 4");
    until("the file", || (now() == "level 4").then_some(())).await;
    cm.end();
}
