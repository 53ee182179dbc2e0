//! Who gets in, what everybody is told, and how a node leaves.

use std::time::{Duration, Instant};

use muster_api::domain::ConnectionState;
use muster_api::servicemanager::v5 as wire;
use muster_lab::pki::CertSpec;
use muster_rpc::ListenAddress;
use muster_smcontroller::{
    CommandKind, InstanceRunner as _, NodeCommandError, NodeConfigs as _, StreamRefused,
};
use tonic::Code;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::rig::*;

#[test]
fn the_port_alone_means_every_address() {
    let address: ListenAddress = ":8093".parse().unwrap();
    assert_eq!(address.0.to_string(), "0.0.0.0:8093");
}

#[tokio::test]
async fn a_node_hears_of_the_cloud_at_once_and_of_every_change() {
    let site = Site::new(quick()).await;
    let mut node = site.open("a").await;
    assert_eq!(
        node.cloud_state().await,
        ConnectionState::Disconnected,
        "before it has said who it is"
    );
    site.cloud.send_replace(ConnectionState::Connected);
    assert_eq!(node.cloud_state().await, ConnectionState::Connected);
    node.say(info("a")).await;
    site.cloud.send_replace(ConnectionState::Disconnected);
    assert_eq!(node.cloud_state().await, ConnectionState::Disconnected);
    site.end().await;
}

#[tokio::test]
async fn a_node_is_announced_and_what_it_says_comes_in_order_until_it_is_gone() {
    let mut site = Site::new(quick()).await;
    let node = site.open("a").await;
    node.say(info("a")).await;
    let all = wire::NodeInstancesStatus {
        instances: vec![instance("one", "active"), instance("two", "failed")],
    };
    let mut changed = instance("one", "inactive");
    changed.env_vars.push(wire::EnvVarStatus {
        name: "HOME".to_owned(),
        error: Some(Default::default()),
    });
    let changed = wire::UpdateInstancesStatus {
        instances: vec![changed],
    };
    node.say(Said::NodeInstancesStatus(all)).await;
    node.say(Said::UpdateInstancesStatus(changed)).await;
    node.say(monitoring(5)).await;
    node.say(alert("hot")).await;
    let part = wire::LogData {
        part: 3,
        ..Default::default()
    };
    node.say(Said::Log(part)).await;
    node.say(alert("hotter")).await;
    node.say(info("a")).await;
    node.finish().await;
    let a = || "a".to_owned();
    let seen = site.wait_for(&Event::gone("a")).await;
    let told = ["instances", "monitoring", "alerts", "logs", "nodes"];
    let mut expected = vec![
        Event::Connected(a()),
        Event::All(a(), vec!["one Active".into(), "two Failed".into()]),
        Event::Changed(a(), vec!["one Inactive EnvVarName(\"HOME\")".into()]),
        Event::Monitoring(a(), 5),
        Event::Alert(a(), "hot".into()),
        Event::Log(a(), 3),
        Event::Alert(a(), "hotter".into()),
        // It may say anew what it has.
        Event::Connected(a()),
    ];
    expected.extend(told.map(|receiver| Event::Disconnected(a(), receiver)));
    assert_eq!(seen, expected);
    site.end().await;
}

#[tokio::test]
async fn commands_reach_connected_nodes_and_no_others() {
    let mut site = Site::new(quick()).await;
    let not_found = |node: &str| {
        Err(NodeCommandError::NotFound {
            node: id(node),
            command: CommandKind::UpdateInstances,
        })
    };
    let update = async |site: &Site, node: &str| {
        let (start, stop) = (Vec::new(), Vec::new());
        site.controller
            .update_instances(&id(node), start, stop)
            .await
    };
    assert_eq!(update(&site, "a").await, not_found("a"));
    let a = site.node("a").await;
    let _b = site.node("b").await;
    assert_eq!(update(&site, "a").await, Ok(()));
    assert_eq!(update(&site, "c").await, not_found("c"));
    let mut nodes = site.controller.nodes();
    nodes.sort();
    assert_eq!(nodes, [id("a"), id("b")]);
    drop(a);
    // Taken out before anybody is told.
    site.wait_for(&Event::Disconnected("a".into(), "instances"))
        .await;
    assert_eq!(update(&site, "a").await, not_found("a"));
    assert_eq!(update(&site, "b").await, Ok(()));
    site.end().await;
}

#[tokio::test]
async fn a_stream_that_does_not_say_whose_it_is_is_closed_in_time() {
    let mut site = Site::new(quick()).await;
    let began = Instant::now();
    let mut silent = site.open("a").await;
    let status = silent.end().await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(began.elapsed() >= quick().hello);
    let within = quick().hello;
    assert_eq!(site.refusal().await, StreamRefused::NoHello { within });
    // Silence is no offence: the next stream is taken at once.
    site.node("a").await;
    site.end().await;
}

#[tokio::test]
async fn a_node_is_the_one_of_its_certificate() {
    let mut site = Site::new(quick()).await;
    let mut node = site.open("a").await;
    node.say(info("b")).await;
    let status = node.end().await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    let refused = StreamRefused::OtherCertificate {
        claimed: id("b"),
        certified: id("a"),
    };
    assert_eq!(site.refusal().await, refused);
    assert!(site.controller.nodes().is_empty());
    // And it does not become another one later.
    let mut other = site.node("c").await;
    other.say(info("d")).await;
    assert_eq!(other.end().await.code(), Code::InvalidArgument);
    site.wait_for(&Event::gone("c")).await;
    site.end().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_a_node_where_a_rule_says_so() {
    let mut site = Site::new(quick()).await;
    let spec = CertSpec::node("a", "sm").without_spiffe();
    let spec = spec.common_name("mapped").organization(FOREIGN);
    let open = async |site: &Site| {
        let tls = site.client_tls_as(&spec, "mapped").await;
        let target = muster_rpc::Target::new(tls, &site.address().to_string()).unwrap();
        let channel = muster_rpc::channel(&target, Default::default());
        Node::open(channel).await.unwrap()
    };
    let node = open(&site).await;
    node.say(info("mapped")).await;
    site.wait_for(&Event::Connected("mapped".into())).await;
    node.finish().await;
    let mut node = open(&site).await;
    node.say(info("a")).await;
    assert_eq!(node.end().await.code(), Code::PermissionDenied);
    site.end().await;
}

#[tokio::test]
async fn only_service_managers_register() {
    let site = Site::new(quick()).await;
    for role in ["iam", "cm", "mp"] {
        let channel = site.channel("a", role).await;
        let refused = Node::open(channel).await.err().unwrap();
        assert_eq!(refused.code(), Code::PermissionDenied, "{role}: {refused}");
        assert!(refused.message().contains("the role sm"), "{refused}");
    }
    site.end().await;
}

#[tokio::test]
async fn without_certificates_a_node_is_who_it_says() {
    let mut site = Site::on(Port::Insecure, quick()).await;
    let a = site.node("a").await;
    let answering = a.answer_all("2.0.0");
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "2.0.0");
    site.end().await;
    assert_eq!(answering.await.unwrap().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_new_certificate_is_served_soon_and_streams_survive_it() {
    let mut site = Site::new(quick()).await;
    let before = site.node("a").await;
    let answering = before.answer_all("2.0.0");
    // A new authority beside the old one, and a certificate of it for the controller.
    let next = muster_lab::pki::Pki::new("system-1").unwrap();
    let both = format!("{}{}", site.pki.ca_pem(), next.ca_pem());
    std::fs::write(site.folder.path().join("ca.pem"), both).unwrap();
    let own = CertSpec::node("main", "cm").localhost();
    issue(&next, site.folder.path(), "cm", &own);
    std::fs::write(site.folder.path().join("only-new.pem"), next.ca_pem()).unwrap();
    let began = Instant::now();
    // Whoever trusts only the new authority gets in as soon as the new certificate is served.
    let connected = loop {
        let tls = site.client_tls_trusting("b", "only-new.pem").await;
        let target = muster_rpc::Target::new(tls, &site.address().to_string()).unwrap();
        let channel = muster_rpc::channel(&target, Default::default());
        match Node::open(channel).await {
            Ok(node) => break node,
            Err(_) if began.elapsed() < Duration::from_secs(10) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(status) => panic!("not within 10 s: {status}"),
        }
    };
    connected.say(info("b")).await;
    site.wait_for(&Event::Connected("b".into())).await;
    let status = site.controller.node_config_status(&id("a")).await.unwrap();
    assert_eq!(status.version, "2.0.0", "the stream of before goes on");
    site.end().await;
    assert_eq!(answering.await.unwrap().code(), Code::Unavailable);
}
