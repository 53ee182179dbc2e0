//! A service manager that is not ours: grpcio, from the contracts alone.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_api::domain::{ConnectionState, InstanceInfo};
use muster_api::servicemanager::v5 as wire;
use muster_lab::pki::CertSpec;
use muster_lab::program::{Process, Program, Stream};
use muster_lab::python::{PYTHON, contracts};
use muster_rpc::slots::{AskError, ReplyKind};
use muster_smcontroller::{
    CommandKind, InstanceRunner as _, Limits, LogProvider as _, LogQuery, MonitoringProvider as _,
    NodeCommandError, NodeConfigs as _,
};

use crate::rig::*;

const PROTOS: [&str; 2] = [
    "common/v2/common.proto",
    "servicemanager/v5/servicemanager.proto",
];

fn start(site: &Site, node: &str) -> Process {
    let folder = site.folder.path();
    let generated = folder.join("generated");
    contracts(&generated, &PROTOS, TIME).unwrap();
    let issued = site.pki.issue(&CertSpec::node(node, "sm")).unwrap();
    let files = issued.write_to(folder, node).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stream/sm.py");
    Program::new(PYTHON)
        .arg(script)
        .arg(generated)
        .arg(format!("localhost:{}", site.address().port()))
        .args([folder.join("ca.pem"), files.cert, files.key])
        .arg(node)
        .start()
        .unwrap()
}

/// Waits outside of the asynchronous workers.
fn sees(node: &mut Process, line: &str) -> String {
    let found = tokio::task::block_in_place(|| node.wait_for_line(line, TIME));
    match found {
        Ok(line) => line.text,
        Err(error) => panic!("{error}: {}", node.text(Stream::Stderr)),
    }
}

fn instance_info(item: &str, digit: char) -> InstanceInfo {
    let wire = wire::InstanceInfo {
        instance: instance(item, "active").instance,
        version: "1.0.0".into(),
        manifest_digest: format!("sha256:{digit}{}", "0".repeat(63)),
        runtime_id: "runtime".into(),
        uid: 5000,
        gid: 5000,
        ..Default::default()
    };
    wire.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_service_manager_registers_obeys_and_answers() {
    muster_lab::require!(
        File("/usr/lib/python3/dist-packages/grpc"),
        File("/usr/lib/python3/dist-packages/grpc_tools"),
    );
    // Nothing is shortened: these are the times that peers know.
    let mut site = Site::new(Limits::default()).await;
    let mut node = start(&site, "foreign");
    assert_eq!(
        sees(&mut node, "got"),
        "got connection_status",
        "first of all"
    );
    assert_eq!(sees(&mut node, "cloud"), "cloud DISCONNECTED");
    site.wait_for(&Event::Connected("foreign".into())).await;
    site.wait_for(&Event::All("foreign".into(), Vec::new()))
        .await;
    site.cloud.send_replace(ConnectionState::Connected);
    assert_eq!(sees(&mut node, "cloud CONN"), "cloud CONNECTED");

    let (foreign, control) = (id("foreign"), site.controller.clone());
    let status = control.node_config_status(&foreign).await.unwrap();
    assert_eq!(status.version, "1.0.0");
    let set = control.set_node_config(&foreign, "2.0.0".into(), "{}".into());
    assert_eq!(set.await.unwrap().version, "2.0.0");
    let average = control.average_monitoring(&foreign).await.unwrap();
    assert_eq!(average.node.ram, 42);

    let set = vec![instance_info("one", '3'), instance_info("two", '1')];
    control
        .update_instances(&foreign, set, Vec::new())
        .await
        .unwrap();
    let all = vec!["one Active".into(), "two Active".into()];
    let seen = site.wait_for(&Event::All("foreign".into(), all)).await;
    let changed: Vec<_> = seen
        .iter()
        .filter_map(|event| match event {
            Event::Changed(_, instances) => Some(instances.concat()),
            _ => None,
        })
        .collect();
    assert_eq!(
        changed,
        [
            "one Activating",
            "one Active",
            "two Activating",
            "two Active"
        ],
        "in the order in which they were said"
    );
    let place = |digit: char| format!("https://files/sha256:{digit}{}", "0".repeat(63));
    assert_eq!(
        sees(&mut node, "blobs https"),
        format!("blobs {} {}", place('3'), place('1'))
    );
    assert_eq!(
        sees(&mut node, "blobs INT"),
        "blobs INTERNAL",
        "one of them is unknown"
    );

    let query = LogQuery {
        correlation_id: "7".into(),
        from: None,
        till: None,
    };
    control.system_log(&foreign, query.clone()).await.unwrap();
    for part in [1, 2] {
        assert_eq!(site.event().await, Event::Log("foreign".into(), part));
    }

    let began = Instant::now();
    let check = control.check_node_config(&foreign, "3.0.0".into(), "{}".into());
    let kind = ReplyKind("NodeConfigStatus");
    let timed_out = NodeCommandError::NoAnswer {
        node: foreign.clone(),
        command: CommandKind::CheckNodeConfig,
        source: AskError::TimedOut { kind },
    };
    assert_eq!(check.await.unwrap_err(), timed_out);
    let took = began.elapsed();
    let five = Duration::from_secs(5)..Duration::from_secs(7);
    assert!(five.contains(&took), "{took:?}");
    let absent = control.system_log(&id("absent"), query).await;
    assert!(
        matches!(absent, Err(NodeCommandError::NotFound { .. })),
        "{absent:?}"
    );

    site.end().await;
    assert_eq!(sees(&mut node, "ended"), "ended UNAVAILABLE");
    tokio::task::block_in_place(|| node.wait(TIME)).unwrap();
}
