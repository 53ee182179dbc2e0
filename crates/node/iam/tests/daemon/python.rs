//! Python's grpcio and openssl drive the whole flow: clients that share no code with the daemon.

use std::fs;
use std::path::Path;

use muster_lab::program::{Program, Stream};
use serde_json::json;

use crate::rig::*;

const PYTHON: &str = "/usr/bin/python3";

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
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../proto");
    let generated = site.path("generated");
    fs::create_dir(&generated).unwrap();
    let compile = Program::new(PYTHON)
        .args(["-m", "grpc_tools.protoc"])
        .arg(format!("-I{}", protos.display()))
        .arg(format!("--python_out={}", generated.display()))
        .arg(format!("--grpc_python_out={}", generated.display()))
        .args([
            "common/v2/common.proto",
            "iamanager/version.proto",
            "iamanager/v6/iamanager.proto",
        ]);
    let mut compile = compile.start().unwrap();
    let status = compile.wait(TIME).unwrap();
    assert!(status.success(), "{}", compile.text(Stream::Stderr));

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
