//! The daemon as a program: its command line, its start and end, and what it tells its manager.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use muster_lab::program::{Program, Stream};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::*;

fn run(program: &Program) -> (Option<i32>, String, String) {
    let mut process = program.start().unwrap();
    let status = process.wait(TIME).unwrap();
    (
        status.code(),
        process.text(Stream::Stdout),
        process.text(Stream::Stderr),
    )
}

#[test]
fn a_configuration_is_checked_and_shown_without_starting() {
    let site = Site::new();
    let node = site.node("node-1");
    let (code, out, _) = run(&node.program().arg("--check-config"));
    assert_eq!((code, out.trim()), (Some(0), "the configuration is valid"));
    let (code, out, _) =
        run(&node
            .program()
            .args(["--print-config", "--set", "publicServerUrl=:1"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("publicServerUrl = :1  # "), "{out}");
    let (code, _, err) =
        run(&node
            .program()
            .args(["--check-config", "--set", "publicServerUrl=nowhere"]));
    assert_eq!(code, Some(78));
    assert!(err.contains("publicServerUrl: `nowhere` must be"), "{err}");
    assert!(!node.socket().exists() && !node.folder.join("work").exists());
}

#[test]
fn the_manager_is_told_and_the_end_is_prompt() {
    let site = Site::new();
    let node = site.node("node-1");
    let path = site.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(TIME)).unwrap();
    let hear = |wanted: &str| loop {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if message.contains(wanted) {
            return message;
        }
    };
    let program = node
        .program()
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000");
    let mut process = program.start().unwrap();
    hear("READY=1");
    hear("STATUS=the node is unprovisioned");
    hear("WATCHDOG=1");
    fs::write(node.folder.join("iam.json"), "{").unwrap();
    process.signal(Signal::HUP).unwrap();
    hear("RELOADING=1");
    hear("READY=1");
    process
        .wait_for_line("the configuration is not valid, the one in use stays", TIME)
        .unwrap();
    let changed = site
        .node("other")
        .set("publicServerUrl", json!("127.0.0.1:1"));
    fs::write(node.folder.join("iam.json"), changed.config.to_string()).unwrap();
    process.signal(Signal::HUP).unwrap();
    let line = process
        .wait_for_line("need a restart to count", TIME)
        .unwrap();
    assert!(line.text.contains("publicServerUrl"), "{}", line.text);
    let begun = Instant::now();
    process.signal(Signal::TERM).unwrap();
    hear("STOPPING=1");
    let status = process.wait(TIME).unwrap();
    assert!(status.success(), "{status}");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(!node.socket().exists(), "the local socket is gone");
}

#[test]
fn one_daemon_per_working_folder() {
    let site = Site::new();
    let node = site.node("node-1");
    let daemon = node.start();
    let (code, _, err) = run(&node.program());
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("cannot open the database"), "{err}");
    block_on(async {
        assert_eq!(
            node_state(node.local().await).await.unwrap(),
            "unprovisioned"
        );
    });
    daemon.end();
}

#[test]
fn a_state_that_is_none_stops_the_daemon_with_advice() {
    let site = Site::new();
    let node = site.node("node-1");
    fs::write(node.folder.join("state"), "provisionned\n").unwrap();
    let (code, _, err) = run(&node.program());
    assert_eq!(code, Some(1));
    assert!(
        err.contains("provisionned") && err.contains("whichever is true"),
        "{err}"
    );
}

/// A member whose certificate is gone is neither reached in the clear nor silent about it.
#[test]
fn a_member_without_a_certificate_is_in_error_and_closed() {
    let site = Site::new();
    let node = site
        .node("node-1")
        .set("insecureUntilProvisioned", json!(["public", "protected"]));
    fs::write(node.folder.join("state"), "provisioned\n").unwrap();
    let daemon = node.start();
    block_on(async {
        let local = node.local().await;
        assert_eq!(node_state(local.clone()).await.unwrap(), "error");
        let operator = Operator {
            channel: local,
            pki: &site.pki,
            target: "",
            node: "node-1",
        };
        let lines = daemon.process.lines();
        assert!(!lines.iter().any(|line| line.text.contains("open port=")));
        operator.deprovision().await.unwrap();
        operator.provision().await.unwrap();
        assert_eq!(node_state(node.local().await).await.unwrap(), "provisioned");
    });
    daemon.end();
}

#[test]
fn the_local_socket_is_for_root() {
    muster_lab::require!(Root, File("/usr/bin/python3"));
    let site = Site::new();
    let node = site.node("node-1");
    let daemon = node.start();
    // The folders above the socket are no hindrance, so that the socket itself has to be one.
    for folder in node.socket().ancestors().skip(1).take(2) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let client = Program::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(node.socket());
    let (code, _, err) = run(&client.clone().user(65534, 65534));
    assert_eq!(code, Some(1));
    assert!(err.contains("Permission denied"), "{err}");
    assert_eq!(run(&client).0, Some(0));
    daemon.end();
}
