//! Values that are followed through changes, losses and servers with other manners.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_api::domain::{CertType, NodeState, SubjectId};
use muster_iamclient::{Followed, IamClient, IamTarget};
use muster_lab::proxy::TcpProxy;
use muster_rpc::Target;
use muster_tls::{ClientOptions, ClientTls, Insecure, ServerOptions, ServerTls};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::fake::{FakeIam, State, cert, node};

const TIME: Duration = Duration::from_secs(20);

fn rig(state: State) -> (TempDir, PathBuf, FakeIam, IamClient) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("iam.sock");
    let client = IamClient::local(&socket);
    (folder, socket, FakeIam::new(state), client)
}

async fn wait<T: Clone + std::fmt::Debug>(
    followed: &mut watch::Receiver<Followed<T>>,
    what: &str,
    mut condition: impl FnMut(&Followed<T>) -> bool,
) -> Followed<T> {
    let latest = followed.clone();
    match timeout(TIME, followed.wait_for(|followed| condition(followed))).await {
        Ok(followed) => followed.expect("it is followed").clone(),
        Err(_) => panic!("{what}: {:?}", *latest.borrow()),
    }
}

fn subjects(followed: &Followed<Vec<SubjectId>>) -> Option<Vec<&str>> {
    let value = followed.value.as_ref()?;
    Some(value.iter().map(SubjectId::as_str).collect())
}

fn driver() -> State {
    State {
        subjects: vec!["driver".into()],
        ..State::default()
    }
}

#[tokio::test]
async fn changes_arrive_and_a_loss_leaves_the_last_value() {
    let (_folder, socket, iam, client) = rig(driver());
    let follow = client.follow_subjects();
    let mut followed = follow.subscribe();
    let nobody = wait(&mut followed, "a reason", |followed| {
        followed.problem.is_some()
    })
    .await;
    assert_eq!(nobody.value, None, "IAM is not there yet");

    for round in 0..3 {
        let server = iam.start(&socket).await;
        wait(&mut followed, "the value", |followed| {
            followed.problem.is_none() && subjects(followed).is_some()
        })
        .await;
        let name = format!("guest-{round}");
        iam.change(|state| state.subjects = vec![name.clone()]);
        wait(&mut followed, "the change", |followed| {
            subjects(followed).is_some_and(|found| found == [name.as_str()])
        })
        .await;
        drop(server);
        let lost = wait(&mut followed, "the loss", |followed| {
            followed.problem.is_some()
        })
        .await;
        assert_eq!(
            subjects(&lost),
            Some(vec![name.as_str()]),
            "what was known stays"
        );
    }
    // What changes while IAM is away is there when it is back.
    iam.change(|state| state.subjects = vec!["owner".into()]);
    let _server = iam.start(&socket).await;
    wait(&mut followed, "the owner", |followed| {
        followed.problem.is_none() && subjects(followed).is_some_and(|found| found == ["owner"])
    })
    .await;
    assert_eq!(subjects(&follow.latest()), Some(vec!["owner"]));
}

#[tokio::test]
async fn a_server_that_sends_headers_late_is_understood() {
    let mut state = driver();
    state.late_headers = true;
    let (_folder, socket, iam, client) = rig(state);
    let _server = iam.start(&socket).await;
    let follow = client.follow_subjects();
    let mut followed = follow.subscribe();
    wait(&mut followed, "the value", |followed| {
        subjects(followed).is_some_and(|found| found == ["driver"])
    })
    .await;
    for name in ["guest", "owner", "driver"] {
        iam.change(|state| state.subjects = vec![name.into()]);
        wait(&mut followed, "the change", |followed| {
            subjects(followed).is_some_and(|found| found == [name])
        })
        .await;
    }
    assert_eq!(follow.latest().problem, None);
}

#[tokio::test]
async fn subscribers_hear_of_changes_only() {
    let (_folder, socket, iam, client) = rig(driver());
    let _server = iam.start(&socket).await;
    let follow = client.follow_subjects();
    follow.first().await;
    let mut followed = follow.subscribe();
    followed.mark_unchanged();
    // Something else changes, then the followed value: one change is heard of.
    iam.change(|state| {
        state.nodes.insert("main".into(), node("main", "paused"));
    });
    iam.change(|state| state.subjects = vec!["owner".into()]);
    timeout(TIME, followed.changed())
        .await
        .expect("in time")
        .expect("followed");
    assert_eq!(
        subjects(&followed.borrow_and_update().clone()),
        Some(vec!["owner"])
    );
    assert!(!followed.has_changed().expect("followed"));
}

#[tokio::test]
async fn a_certificate_may_come_later_and_bad_news_is_only_a_problem() {
    let (_folder, socket, iam, client) = rig(State::default());
    let _server = iam.start(&socket).await;
    let follow = client.follow_cert(CertType::Sm);
    let mut followed = follow.subscribe();
    let none = wait(&mut followed, "a reason", |followed| {
        followed.problem.is_some()
    })
    .await;
    assert!(none.problem.expect("a reason").contains("no certificate"));
    iam.change(|state| {
        state.certs.insert("sm".into(), cert("sm", 1));
    });
    let first = timeout(TIME, follow.first()).await.expect("in time");
    assert_eq!(first.serial, [1]);
    iam.change(|state| {
        state.certs.insert("sm".into(), cert("NO TYPE", 2));
    });
    let bad = wait(&mut followed, "the bad news", |followed| {
        followed.problem.is_some()
    })
    .await;
    assert_eq!(bad.value.expect("still known").serial, [1]);
    iam.change(|state| {
        state.certs.insert("sm".into(), cert("sm", 3));
    });
    wait(&mut followed, "the good news", |followed| {
        followed.problem.is_none()
            && followed
                .value
                .as_ref()
                .is_some_and(|cert| cert.serial == [3])
    })
    .await;
}

#[tokio::test]
async fn nodes_are_followed_as_a_whole_and_one_by_one() {
    let state = State {
        nodes: BTreeMap::from([("main".to_owned(), node("main", "provisioned"))]),
        ..State::default()
    };
    let (_folder, socket, iam, client) = rig(state);
    let server = iam.start(&socket).await;
    let current = client.follow_current_node();
    let nodes = client.follow_nodes();
    assert_eq!(current.first().await.state, NodeState::Provisioned);
    assert_eq!(nodes.first().await.len(), 1);
    iam.change(|state| {
        state
            .nodes
            .insert("second".into(), node("second", "unprovisioned"));
        state.nodes.insert("main".into(), node("main", "paused"));
    });
    wait(&mut nodes.subscribe(), "both nodes", |followed| {
        let states: Option<Vec<_>> = followed
            .value
            .as_ref()
            .map(|nodes| nodes.values().map(|node| node.state).collect());
        states == Some(vec![NodeState::Paused, NodeState::Unprovisioned])
    })
    .await;
    wait(&mut current.subscribe(), "the pause", |followed| {
        followed
            .value
            .as_ref()
            .is_some_and(|node| node.state == NodeState::Paused)
    })
    .await;
    // A node that went while IAM was away is not kept for ever.
    drop(server);
    wait(&mut nodes.subscribe(), "the loss", |followed| {
        followed.problem.is_some()
    })
    .await;
    iam.change(|state| {
        state.nodes.remove("second");
    });
    let _server = iam.start(&socket).await;
    wait(&mut nodes.subscribe(), "one node", |followed| {
        followed
            .value
            .as_ref()
            .is_some_and(|nodes| nodes.len() == 1)
    })
    .await;
}

/// A hung IAM, or a network that swallows: nothing ends the connection but the missing answers.
#[tokio::test]
async fn silence_is_noticed_and_the_value_followed_again() {
    let iam = FakeIam::new(driver());
    let permission = Insecure::because("a test on the loopback").expect("a reason");
    let tls = ServerTls::insecure(permission.clone(), ServerOptions::default());
    let started = iam
        .builder()
        .start("127.0.0.1:0".parse().expect("an address"), &tls)
        .await;
    let server = started.expect("a server");
    let proxy = TcpProxy::new(server.address()).expect("a proxy");
    let tls = ClientTls::insecure(&permission, ClientOptions::default());
    let target = Target::new(tls, &proxy.addr().to_string()).expect("a target");
    let follow = IamClient::new(IamTarget::Tcp(target)).follow_subjects();
    follow.first().await;
    let mut followed = follow.subscribe();

    proxy.blackhole();
    iam.change(|state| state.subjects = vec!["owner".into()]);
    let start = Instant::now();
    let silent = wait(&mut followed, "the silence", |followed| {
        followed.problem.is_some()
    })
    .await;
    // A ping after 10 s of silence, and 3 s for its answer.
    assert!(
        start.elapsed() < Duration::from_secs(16),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        subjects(&silent),
        Some(vec!["driver"]),
        "what was known stays"
    );
    proxy.forward();
    proxy.reset();
    wait(&mut followed, "the change", |followed| {
        followed.problem.is_none() && subjects(followed).is_some_and(|found| found == ["owner"])
    })
    .await;
}

#[tokio::test]
async fn the_task_ends_with_what_is_followed() {
    let (_folder, socket, iam, client) = rig(driver());
    let _server = iam.start(&socket).await;
    let follow = client.follow_subjects();
    follow.first().await;
    let mut followed = follow.subscribe();
    drop(follow);
    let ended = async { while followed.changed().await.is_ok() {} };
    timeout(TIME, ended).await.expect("the channel closes");
}
