//! Python's grpcio and openssl drive the whole flow: clients that share no code with the daemon.

use std::fs;
use std::path::Path;

use muster_lab::program::{Program, Stream};
use muster_lab::python::{PYTHON, contracts};
use serde_json::json;

use crate::rig::*;

#[test]
fn grpcio_and_openssl_provision_use_and_deprovision_a_node() {
    muster_lab::require!(
        File("/usr/lib/python3/dist-packages/grpc_tools"),
        Tool("openssl")
    );
    let site = Site::new();
    // The authority is openssl's; there is no revocation list.
    fs::remove_file(site.path("ca.pem")).unwrap();
    let node = site
        .node("node-1")
        .set("certRevocationLists", json!([]))
        .set("insecureUntilProvisioned", json!(["public", "protected"]));
    let generated = site.path("generated");
    let protos = [
        "common/v2/common.proto",
        "iamanager/version.proto",
        "iamanager/v6/iamanager.proto",
    ];
    contracts(&generated, &protos, TIME).unwrap();

    let mut daemon = node.start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/drive.py");
    let mut client = Program::new(PYTHON)
        .arg(script)
        .arg(&generated)
        .arg(site.folder.path())
        .arg(daemon.address("public").to_string())
        .arg(daemon.address("protected").to_string())
        .start()
        .unwrap();
    let status = client.wait(TIME * 2).unwrap();
    assert!(
        status.success(),
        "{}\n{}",
        client.text(Stream::Stdout),
        client.text(Stream::Stderr)
    );
    assert!(
        client.text(Stream::Stdout).trim_end() == "done",
        "{}",
        client.text(Stream::Stdout)
    );
    daemon.end();
}
