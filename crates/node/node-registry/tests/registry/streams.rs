//! Streams in memory, driven by hand: what the Main Node says and remembers.

use std::time::Duration;

use muster_api::iamanager::v6 as wire;
use muster_node_registry::{
    Answer, CommandKind, PeerKind, RegistryLimits, RouteError, RouteRefused,
};
use muster_rpc::slots::AskError;
use tonic::Code;

use crate::rig::*;

#[tokio::test]
async fn nodes_are_shown_and_remembered_across_a_restart() {
    let main = Main::new(quick()).await;
    let a = HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    a.describe(wire_node("a", Paused)).await;
    main.sees("a", |record| record.info.state == Paused).await;
    let b = HandNode::join(&main.registry, certified("b"), wire_node("b", Provisioned)).await;
    main.sees_connected("b").await;
    drop(b);
    let left = main.sees_away("b").await;

    let main = main.restart(quick()).await;
    assert_eq!(a.end().await.unwrap().code(), Code::Unavailable);
    let ids: Vec<String> = main.registry.ids().into_iter().map(String::from).collect();
    assert_eq!(ids, ["a", "b", "main"]);
    let a = main.registry.info("a").unwrap();
    assert_eq!((a.info.state, is_here(&a)), (Paused, false));
    let b = main.registry.info("b").unwrap();
    let seconds = |record: &muster_node_registry::NodeRecord| match record.connection {
        muster_node_registry::Connection::Disconnected { since } => since
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
        muster_node_registry::Connection::Connected => panic!("it is away"),
    };
    assert_eq!(
        seconds(&b),
        seconds(&left),
        "it has been away since before the restart"
    );
    assert!(is_here(&main.registry.info("main").unwrap()));
}

#[tokio::test]
async fn a_command_is_answered_by_its_node_and_shown_when_it_returns() {
    let main = Main::new(RegistryLimits {
        damping: Duration::from_hours(1),
        ..quick()
    })
    .await;
    let mut node =
        HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    let registry = main.registry.clone();
    let asked = tokio::spawn(async move { registry.command("a", pause()).await });
    assert_eq!(
        CommandKind::of(&node.command().await),
        CommandKind::PauseNode
    );
    node.send(Answer::PauseNodeResponse(wire::PauseNodeResponse::default()))
        .await;
    assert!(asked.await.unwrap().is_ok());
    assert_eq!(main.registry.info("a").unwrap().info.state, Paused);
    let main = main.restart(quick()).await;
    assert_eq!(main.registry.info("a").unwrap().info.state, Paused);
}

#[tokio::test]
async fn a_failure_that_a_node_reports_changes_nothing() {
    let main = Main::new(quick()).await;
    let mut node =
        HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    let registry = main.registry.clone();
    let asked = tokio::spawn(async move { registry.command("a", pause()).await });
    node.command().await;
    let failed = wire::PauseNodeResponse {
        error: Some(muster_api::common::v2::ErrorInfo {
            aos_code: 1,
            ..Default::default()
        }),
    };
    node.send(Answer::PauseNodeResponse(failed.clone())).await;
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(answer, Answer::PauseNodeResponse(failed));
    assert_eq!(main.registry.info("a").unwrap().info.state, Provisioned);
}

#[tokio::test]
async fn commands_that_make_no_sense_are_refused_before_they_are_sent() {
    let main = Main::new(quick()).await;
    let _node = HandNode::join(
        &main.registry,
        PeerKind::Public,
        wire_node("a", Unprovisioned),
    )
    .await;
    main.sees_connected("a").await;
    let cases = [
        (
            "a",
            pause(),
            Code::FailedPrecondition,
            "PauseNode is refused for a node that is unprovisioned",
        ),
        ("a", resume(), Code::FailedPrecondition, "it is not paused"),
        (
            "main",
            start_provisioning(),
            Code::FailedPrecondition,
            "deprovision it first",
        ),
        ("", resume(), Code::FailedPrecondition, "it is not paused"),
        (
            "nobody",
            pause(),
            Code::NotFound,
            "there is no node \"nobody\"",
        ),
    ];
    for (id, command, code, text) in cases {
        let refused = main.registry.command(id, command).await.unwrap_err();
        let status = tonic::Status::from(&refused);
        assert_eq!(status.code(), code);
        assert!(status.message().contains(text), "{status:?}");
        assert!(refused.to_aos().message.contains(text));
    }
    assert!(main.local.begun.borrow().is_empty());
}

#[tokio::test]
async fn the_main_node_is_commanded_like_any_other() {
    let main = Main::new(quick()).await;
    main.registry.command("", pause()).await.unwrap();
    assert_eq!(main.registry.info("main").unwrap().info.state, Paused);
    main.registry.command("main", resume()).await.unwrap();
    assert_eq!(main.registry.info("main").unwrap().info.state, Provisioned);
}

#[tokio::test]
async fn a_command_without_an_answer_ends_at_its_deadline_or_with_the_stream() {
    let main = Main::new(quick()).await;
    let mut node =
        HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    let late = main.registry.command("a", cert_types()).await.unwrap_err();
    assert!(
        matches!(
            late,
            RouteError::NoAnswer {
                source: AskError::TimedOut { .. },
                ..
            }
        ),
        "{late:?}"
    );
    assert_eq!(
        late.to_aos().cause,
        muster_api::domain::AosError::new(muster_api::domain::AosCode::Timeout, "").cause
    );
    let registry = main.registry.clone();
    let asked = tokio::spawn(async move { registry.command("a", pause()).await });
    node.command().await;
    node.command().await;
    drop(node);
    let broken = asked.await.unwrap().unwrap_err();
    assert!(
        matches!(
            broken,
            RouteError::NoAnswer {
                source: AskError::Disconnected,
                ..
            }
        ),
        "{broken:?}"
    );
    main.sees_away("a").await;
    let away = main.registry.command("a", pause()).await.unwrap_err();
    let RouteError::Refused {
        source: RouteRefused::NotConnected { .. },
        ..
    } = away
    else {
        panic!("{away:?}");
    };
}

#[tokio::test]
async fn the_second_of_two_nodes_with_one_id_is_refused_as_long_as_the_first_answers() {
    let main = Main::new(quick()).await;
    let mut first =
        HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    let second = HandNode::join(&main.registry, certified("a"), wire_node("a", Paused)).await;
    let asked = first.command().await;
    first.send(answer_to(&asked)).await;
    let status = second.end().await.unwrap();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(
        status.message(),
        "there is a node a already, and it is connected; two nodes cannot have one id"
    );
    assert_eq!(main.registry.info("a").unwrap().info.state, Provisioned);
    // The first stays silent now: it has been switched off, and the second is what came up again.
    let second = HandNode::join(&main.registry, certified("a"), wire_node("a", Paused)).await;
    main.sees("a", |record| record.info.state == Paused).await;
    assert_eq!(first.end().await.unwrap().code(), Code::Aborted);
    drop(second);
}

#[tokio::test]
async fn who_may_not_join_is_told_why() {
    let main = Main::new(quick()).await;
    let member = HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    drop(member);
    main.sees_away("a").await;
    let long = wire::NodeInfo {
        title: "x".repeat(70_000),
        ..wire_node("b", Unprovisioned)
    };
    let cases = [
        (
            PeerKind::Public,
            wire_node("a", Unprovisioned),
            Code::PermissionDenied,
            "forget it first",
        ),
        (
            PeerKind::Public,
            wire_node("b", Provisioned),
            Code::FailedPrecondition,
            "protected port",
        ),
        (
            PeerKind::Public,
            wire_node("main", Unprovisioned),
            Code::AlreadyExists,
            "Main Node itself",
        ),
        (
            PeerKind::Public,
            wire::NodeInfo::default(),
            Code::InvalidArgument,
            "NodeInfo.node_id",
        ),
        (
            PeerKind::Public,
            long,
            Code::InvalidArgument,
            "more than the 65536 allowed",
        ),
        (
            certified("a"),
            wire_node("b", Provisioned),
            Code::PermissionDenied,
            "certificate of node a",
        ),
    ];
    for (peer, info, code, text) in cases {
        let node = HandNode::join(&main.registry, peer, info).await;
        let status = node.end().await.unwrap();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(text), "{status:?}");
    }
    let silent = HandNode::open(&main.registry, PeerKind::Public);
    assert_eq!(silent.end().await.unwrap().code(), Code::DeadlineExceeded);
    let ids: Vec<String> = main.registry.ids().into_iter().map(String::from).collect();
    assert_eq!(ids, ["a", "main"]);
}

#[tokio::test]
async fn unauthenticated_streams_are_bounded_and_their_places_come_back() {
    let main = Main::new(RegistryLimits {
        public_streams: 2,
        hello: Duration::from_hours(1),
        ..quick()
    })
    .await;
    let mut held: Vec<HandNode> = (0..2)
        .map(|_| HandNode::open(&main.registry, PeerKind::Public))
        .collect();
    let refused = HandNode::try_open(&main.registry, PeerKind::Public)
        .err()
        .unwrap();
    assert_eq!(
        tonic::Status::from(&refused).code(),
        Code::ResourceExhausted
    );
    // Members have no such limit.
    HandNode::open(&main.registry, certified("a"));
    held.pop();
    let again = async {
        while HandNode::try_open(&main.registry, PeerKind::Public).is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon("a free place", again).await;
}

#[tokio::test]
async fn a_slow_subscriber_gets_the_last_state_of_a_flapping_node() {
    let main = Main::new(quick()).await;
    let mut changes = main.registry.subscribe();
    for _ in 0..10 {
        let node =
            HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
        main.sees_connected("a").await;
        drop(node);
        main.sees_away("a").await;
    }
    let told = std::iter::from_fn(|| changes.try_next());
    let told: Vec<_> = told
        .map(|record| (record.info.node_id.to_string(), is_here(&record)))
        .collect();
    assert_eq!(told, [("main".to_owned(), true), ("a".to_owned(), false)]);
}

#[tokio::test]
async fn a_reader_that_keeps_up_sees_a_flapping_node_once_per_interval() {
    let damping = Duration::from_millis(200);
    let main = Main::new(RegistryLimits { damping, ..quick() }).await;
    let mut changes = main.registry.subscribe();
    let reader = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(record) = changes.next().await {
            if record.info.node_id.as_str() == "a" {
                seen.push((tokio::time::Instant::now(), is_here(&record)));
            }
        }
        seen
    });
    let mut flaps = 0;
    let began = tokio::time::Instant::now();
    while began.elapsed() < 5 * damping {
        let node =
            HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
        drop(node);
        flaps += 1;
        tokio::task::yield_now().await;
    }
    let took = began.elapsed();
    main.sees_away("a").await;
    main.registry.shutdown().await;
    let Main { registry, .. } = main;
    drop(registry);
    let seen = soon("the end of the changes", reader).await.unwrap();
    let allowed = took.as_millis() / damping.as_millis() + 2;
    assert!(
        flaps > 20 && seen.len() as u128 <= allowed,
        "{} shown in {took:?} of {flaps}",
        seen.len()
    );
    assert_eq!(seen.last().map(|(_, here)| *here), Some(false));
}

#[tokio::test]
async fn what_cannot_be_stored_is_neither_shown_nor_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let main = Main::with_store(store.clone(), folder, quick()).await;
    let mut node =
        HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    store.close().await.unwrap();
    let registry = main.registry.clone();
    let asked = tokio::spawn(async move { registry.command("a", pause()).await });
    let command = node.command().await;
    node.send(answer_to(&command)).await;
    let failed = asked.await.unwrap().unwrap_err();
    assert!(matches!(failed, RouteError::NotStored { .. }), "{failed:?}");
    assert_eq!(main.registry.info("a").unwrap().info.state, Provisioned);
}

#[tokio::test]
async fn a_forgotten_node_may_come_back_without_a_certificate() {
    let main = Main::new(quick()).await;
    let member = HandNode::join(&main.registry, certified("a"), wire_node("a", Provisioned)).await;
    main.sees_connected("a").await;
    assert!(main.registry.forget("a").await.is_err());
    drop(member);
    main.sees_away("a").await;
    main.registry.forget("a").await.unwrap();
    assert_eq!(main.registry.info("a"), None);
    let _new = HandNode::join(
        &main.registry,
        PeerKind::Public,
        wire_node("a", Unprovisioned),
    )
    .await;
    main.sees_connected("a").await;
    assert!(main.registry.forget("main").await.is_err());
}
