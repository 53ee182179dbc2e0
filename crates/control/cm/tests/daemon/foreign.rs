//! Python's grpcio as a Service Manager: what AosCore's managers rely on holds.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_control_api::v1;
use muster_lab::program::Program;
use muster_lab::python::{PYTHON, contracts};
use serde_json::json;

use crate::iam::Iam;
use crate::rig::{Site, TIME};

const PROTOS: [&str; 2] = [
    "common/v2/common.proto",
    "servicemanager/v5/servicemanager.proto",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_registers_runs_what_it_is_told_and_fetches_blobs_in_order() {
    muster_lab::require!(File("/usr/lib/python3/dist-packages/grpc_tools"));
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let site = iam.trusted_by(site);
    let cm = site.start();
    let generated = site.path("generated");
    contracts(&generated, &PROTOS, TIME).unwrap();
    let (cert, key, ca) = iam.certificate("n2", "sm");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/foreign.py");
    let program = Program::new(PYTHON)
        .arg(script)
        .arg(&generated)
        .arg(site.address().to_string())
        .arg("n2")
        .args([cert, key, ca]);
    let mut manager = program.start().unwrap();
    // Before it has said who it is.
    manager
        .wait_for_line(r#""first": "connection_status", "state": 0"#, TIME)
        .unwrap();

    // Nobody else is there to be asked.
    let request = v1::ReadLogsRequest {
        node_ids: vec!["n3".to_owned()],
        ..Default::default()
    };
    let refused = cm.control().await.read_logs(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused}");

    cm.apply(&site.document(&[("web", "1.0.0", 2)])).await;
    let active = cm.until_active(2).await;
    assert!(active.values().all(|it| it.node == "n2"), "{active:#?}");
    manager.wait_for_line(r#""update": 2"#, TIME).unwrap();
    manager
        .wait_for_line(r#""unknown": "INTERNAL""#, TIME)
        .unwrap();
    manager.wait_for_line(r#""in_order": true"#, TIME).unwrap();

    // A question that is not answered is given up after 5 s, and the update goes on.
    let mut document = site.document(&[("web", "1.0.0", 3)]);
    document["unitConfig"] = json!({"formatVersion": "1", "version": "1.0.0", "nodes": []});
    let began = Instant::now();
    cm.apply(&document).await;
    cm.until_active(3).await;
    assert!(
        began.elapsed() >= Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    manager.wait_for_line("check_node_config", TIME).unwrap();
    let desired = cm
        .control()
        .await
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap();
    let failures = desired.into_inner().update.unwrap().failures;
    assert!(failures.iter().any(|it| it.contains("n2")), "{failures:?}");
    cm.end();
    drop(manager);
}
