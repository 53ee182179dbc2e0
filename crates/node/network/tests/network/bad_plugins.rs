//! Plugins that do not do what they should.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_lab::net::Net;
use muster_lab::require;
use serde_json::{Value, json};

use crate::rig::{Node, member, two_networks};
use crate::wire::{PATIENCE, Protocol, reach, serve};

/// A plugin that behaves in this way when it is asked to ADD, and deletes as it should.
fn fake(folder: &Path, body: &str) {
    let path = folder.join("bandwidth");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn limited() -> Value {
    let mut instance = member("web", "front", 2);
    instance["upload"] = json!(1_000_000);
    instance
}

#[test]
fn a_plugin_that_hangs_fails_or_talks_nonsense_fails_its_instance_and_nothing_else() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let folder = tempfile::tempdir().unwrap();
    let net = Net::new(&["node"]).unwrap();
    let plugins = format!("plugins={}", folder.path().display());
    let mut node = Node::new(net.host("node"), &[&plugins, "timeout-ms=2500"]);
    node.start();
    node.update(two_networks()).unwrap();
    let app = node.attach(&member("app", "front", 3));
    serve(&app, &[8080]);
    let before = node.facts();
    for (body, said) in [
        (
            "[ $CNI_COMMAND = DEL ] || sleep 600",
            "it did not end within 2.5s and was killed",
        ),
        (
            "[ $CNI_COMMAND = DEL ] || { echo no room >&2; exit 9; }",
            "it ended with exit status: 9: no room",
        ),
        (
            "[ $CNI_COMMAND = DEL ] || echo hello",
            "it ended well without a proper answer",
        ),
        (
            "[ $CNI_COMMAND = DEL ] || printf '{\"cniVersion\": \"1.0.0\", '",
            "it ended well without a proper answer",
        ),
        (
            "[ $CNI_COMMAND = DEL ] || { echo '{\"cniVersion\": \"1.0.0\", \"code\": 11, \"msg\": \"busy\"}'; exit 1; }",
            "it says \"busy\" (code 11)",
        ),
    ] {
        fake(folder.path(), body);
        let error = node.ask(&json!({"attach": limited()})).unwrap_err();
        assert!(
            error.starts_with("Failed: web:lab:0 is not in its network: "),
            "{error}"
        );
        assert!(
            error.contains("plugin bandwidth: ADD of container "),
            "{error}"
        );
        assert!(error.contains(said), "{error}");
        node.facts().assert_same(&before, body);
    }
    // Others are not hurt, and the same one is not either when the plugin is well again.
    fs::remove_file(folder.path().join("bandwidth")).unwrap();
    let web = node.attach(&limited());
    assert!(reach(&web, (app.address, 8080), Protocol::Tcp, PATIENCE).is_some());
}

#[test]
fn what_a_plugin_cannot_remove_now_is_removed_later() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let folder = tempfile::tempdir().unwrap();
    let net = Net::new(&["node"]).unwrap();
    let plugins = format!("plugins={}", folder.path().display());
    let mut node = Node::new(net.host("node"), &[&plugins]);
    node.start();
    node.update(two_networks()).unwrap();
    let before = node.facts_without_foundations();
    drop(node.attach(&limited()));
    fake(folder.path(), "exit 3");
    let error = node.ask(&json!({"detach": "web"})).unwrap_err();
    assert!(
        error.contains("plugin bandwidth: DEL of container "),
        "{error}"
    );
    // It is not there for others any more, though.
    assert!(!node.facts().contain("/netns/"));
    fs::remove_file(folder.path().join("bandwidth")).unwrap();
    node.ask(&json!({"keep": []})).unwrap();
    node.facts_without_foundations()
        .assert_same(&before, "after the second attempt");
}

#[test]
fn a_full_disk_is_an_error_that_passes() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    node.start();
    node.update(two_networks()).unwrap();
    let app = node.attach(&member("app", "front", 3));
    serve(&app, &[8080]);
    let before = node.facts();
    node.sh("dd if=/dev/zero of=/run/full bs=4096 2>/dev/null || true");
    let error = node
        .ask(&json!({"attach": member("web", "front", 2)}))
        .unwrap_err();
    assert!(
        error.starts_with("Failed: web:lab:0 is not in its network: "),
        "{error}"
    );
    assert!(error.contains("No space left on device"), "{error}");
    node.sh("rm /run/full");
    node.facts().assert_same(&before, "after the failure");
    let web = node.attach(&member("web", "front", 2));
    assert!(reach(&web, (app.address, 8080), Protocol::Tcp, PATIENCE).is_some());
}
