//! Commands and their answers.

use std::time::{Duration, Instant};

use muster_api::domain::{InstanceFilter, NodeConfigState};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::slots::{AskError, ReplyKind};
use muster_smcontroller::{
    CommandKind, Limits, LogProvider as _, LogQuery, MonitoringProvider as _, NodeCommandError,
    NodeConfigs as _, NodeNetworks as _,
};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::rig::*;

const CONFIG: ReplyKind = ReplyKind("NodeConfigStatus");

fn no_answer(command: CommandKind, source: AskError) -> NodeCommandError {
    NodeCommandError::NoAnswer {
        node: id("a"),
        command,
        source,
    }
}

#[test]
fn five_seconds_are_what_a_reply_may_take() {
    assert_eq!(Limits::default().reply, Duration::from_secs(5));
    assert_eq!(Limits::default().ping, Duration::from_secs(1));
}

#[tokio::test]
async fn every_question_is_answered_by_its_own_reply() {
    let mut site = Site::new(quick()).await;
    let node = site.node("a").await;
    let answering = node.answer_all("1.0.0");
    let (a, control) = (id("a"), &site.controller);
    let status = control.node_config_status(&a).await.unwrap();
    assert_eq!(
        (status.state, status.version.as_str()),
        (NodeConfigState::Installed, "1.0.0")
    );
    let checked = control.check_node_config(&a, "2.0.0".into(), "{}".into());
    assert_eq!(checked.await.unwrap().version, "2.0.0");
    let set = control.set_node_config(&a, "3.0.0".into(), "{}".into());
    assert_eq!(set.await.unwrap().version, "3.0.0");
    assert_eq!(control.average_monitoring(&a).await.unwrap().node.ram, 7);
    site.end().await;
    answering.await.unwrap();
}

#[tokio::test]
async fn what_has_no_reply_is_carried_as_it_was_given() {
    let mut site = Site::new(quick()).await;
    let mut node = site.node("a").await;
    let (a, control) = (id("a"), &site.controller);
    let network = wire::UpdateNetworkParameters {
        network_id: "net".into(),
        vlan_id: 7,
        ..Default::default()
    };
    control
        .update_networks(&a, vec![network.clone()])
        .await
        .unwrap();
    let query = |id: &str| LogQuery {
        correlation_id: id.into(),
        from: Some(std::time::SystemTime::UNIX_EPOCH.try_into().unwrap()),
        till: None,
    };
    let any = || InstanceFilter::new(Some("item".parse().unwrap()), None, Some(0)).unwrap();
    control.system_log(&a, query("1")).await.unwrap();
    control.instance_log(&a, any(), query("2")).await.unwrap();
    control
        .instance_crash_log(&a, any(), query("3"))
        .await
        .unwrap();
    let networks = vec![network];
    assert_eq!(
        node.command().await,
        Command::UpdateNetworks(wire::UpdateNetworks { networks })
    );
    let Command::SystemLogRequest(system) = node.command().await else {
        panic!("in the order in which they were given");
    };
    assert_eq!((system.correlation_id.as_str(), system.till), ("1", None));
    assert!(system.from.is_some());
    let Command::InstanceLogRequest(instance) = node.command().await else {
        panic!("in the order in which they were given");
    };
    assert_eq!(instance.correlation_id, "2");
    assert_eq!(instance.filter.as_ref().unwrap().item_id, "item");
    let Command::InstanceCrashLogRequest(crash) = node.command().await else {
        panic!("in the order in which they were given");
    };
    assert_eq!(
        (crash.correlation_id.as_str(), &crash.filter),
        ("3", &instance.filter)
    );
    site.end().await;
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_waited_for_and_no_longer() {
    let mut site = Site::new(quick()).await;
    let mut node = site.node("a").await;
    let began = Instant::now();
    let failed = site
        .controller
        .node_config_status(&id("a"))
        .await
        .unwrap_err();
    let kind = CONFIG;
    let timed_out = no_answer(
        CommandKind::GetNodeConfigStatus,
        AskError::TimedOut { kind },
    );
    assert_eq!(failed, timed_out);
    assert!(began.elapsed() >= quick().reply);
    assert!(matches!(
        node.command().await,
        Command::GetNodeConfigStatus(_)
    ));
    // The other kind of question is not held up by it.
    let average_of = site.controller.clone();
    let asked = tokio::spawn(async move { average_of.average_monitoring(&id("a")).await });
    assert!(matches!(
        node.command().await,
        Command::GetAverageMonitoring(_)
    ));
    node.say(average(9)).await;
    assert_eq!(asked.await.unwrap().unwrap().node.ram, 9);
    site.end().await;
}

#[tokio::test]
async fn a_late_reply_does_not_answer_the_next_question() {
    let mut site = Site::new(quick()).await;
    let mut node = site.node("a").await;
    let a = id("a");
    let first = site
        .controller
        .check_node_config(&a, "1".into(), "{}".into());
    first.await.unwrap_err();
    assert!(matches!(node.command().await, Command::CheckNodeConfig(_)));
    let controller = site.controller.clone();
    let second = tokio::spawn(async move {
        controller
            .check_node_config(&a, "2".into(), "{}".into())
            .await
    });
    node.say(config_status("late answer to the first")).await;
    // Only now, when the first is settled, does the second go out.
    let Command::CheckNodeConfig(check) = node.command().await else {
        panic!("not the second question");
    };
    assert_eq!(check.version, "2");
    node.say(config_status("2")).await;
    assert_eq!(second.await.unwrap().unwrap().version, "2");
    site.end().await;
}

#[tokio::test]
async fn questions_of_one_kind_queue_and_each_gets_its_own_reply() {
    let limits = Limits {
        reply: TIME,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let mut node = site.node("a").await;
    let mut asked = Vec::new();
    for number in 0..20 {
        let (controller, version) = (site.controller.clone(), format!("{number}"));
        let ask = async move {
            let set = controller.set_node_config(&id("a"), version.clone(), "{}".into());
            (version, set.await.unwrap().version)
        };
        asked.push(tokio::spawn(ask));
    }
    for answered in 0..20 {
        let Command::SetNodeConfig(set) = node.command().await else {
            panic!("something else");
        };
        if answered == 0 {
            // While one is unanswered no other of its kind is on the wire.
            let next = tokio::time::timeout(Duration::from_millis(100), node.command()).await;
            assert!(next.is_err(), "two questions of one kind at a time");
        }
        node.say(config_status(&set.version)).await;
    }
    for ask in asked {
        let (wanted, got) = ask.await.unwrap();
        assert_eq!(wanted, got, "somebody else's reply");
    }
    site.end().await;
}

#[tokio::test]
async fn a_reply_that_nobody_waits_for_is_thrown_away() {
    let mut site = Site::new(quick()).await;
    let mut node = site.node("a").await;
    for _ in 0..100 {
        node.say(config_status("nobody asked")).await;
        node.say(average(1)).await;
    }
    node.say(alert("after")).await;
    let after = Event::Alert("a".into(), "after".into());
    assert_eq!(site.wait_for(&after).await, [after], "no receiver gets it");
    let controller = site.controller.clone();
    let asked = tokio::spawn(async move { controller.node_config_status(&id("a")).await });
    assert!(matches!(
        node.command().await,
        Command::GetNodeConfigStatus(_)
    ));
    node.say(config_status("3.0.0")).await;
    assert_eq!(asked.await.unwrap().unwrap().version, "3.0.0");
    site.end().await;
}

#[tokio::test]
async fn a_broken_stream_fails_what_waits_at_once() {
    let limits = Limits {
        reply: TIME * 10,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let mut node = site.node("a").await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        let controller = site.controller.clone();
        asked.push(tokio::spawn(async move {
            controller.node_config_status(&id("a")).await
        }));
    }
    node.command().await;
    drop(node);
    for ask in asked {
        let failed = tokio::time::timeout(TIME, ask).await.expect("at once");
        let disconnected = no_answer(CommandKind::GetNodeConfigStatus, AskError::Disconnected);
        assert_eq!(failed.unwrap().unwrap_err(), disconnected);
    }
    site.end().await;
}

#[tokio::test]
async fn an_answer_without_sense_is_an_error_of_its_own() {
    let mut site = Site::new(quick()).await;
    let mut node = site.node("a").await;
    let controller = site.controller.clone();
    let asked = tokio::spawn(async move { controller.node_config_status(&id("a")).await });
    node.command().await;
    let nonsense = wire::NodeConfigStatus {
        state: "confused".into(),
        ..Default::default()
    };
    node.say(Said::NodeConfigStatus(nonsense)).await;
    let failed = asked.await.unwrap().unwrap_err();
    assert!(
        matches!(failed, NodeCommandError::InvalidAnswer { .. }),
        "{failed:?}"
    );
    site.end().await;
}

#[tokio::test]
async fn a_command_that_no_node_would_take_is_refused_before_it_is_sent() {
    let limits = Limits {
        message_bytes: 4096,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let node = site.node("a").await;
    let answering = node.answer_all("1.0.0");
    let long = "x".repeat(5000);
    let failed = site
        .controller
        .set_node_config(&id("a"), "2".into(), long)
        .await;
    let failed = failed.unwrap_err();
    assert!(
        matches!(
            failed,
            NodeCommandError::TooLong {
                len: 5000..,
                limit: 4096,
                ..
            }
        ),
        "{failed:?}"
    );
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "1.0.0", "the stream is as it was");
    site.end().await;
    answering.await.unwrap();
}
