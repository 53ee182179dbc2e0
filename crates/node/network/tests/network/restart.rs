//! What a restart finds, and what it makes of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use muster_lab::net::Net;
use muster_lab::{poll_until, require};
use serde_json::json;

use crate::rig::{Node, member, two_networks};
use crate::wire::{PATIENCE, Protocol, SILENCE, look_up, reach, serve};

#[test]
fn what_runs_is_adopted_and_what_has_vanished_is_removed() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    node.start();
    node.update(two_networks()).unwrap();
    let web = node.attach(&member("web", "front", 2));
    let alone = node.facts();
    let mut app = member("app", "front", 3);
    app["upload"] = json!(5_000_000);
    let (app, db) = (node.attach(&app), node.attach(&member("db", "back", 2)));
    serve(&app, &[8080]);
    let both = node.facts();

    // A connection that lives through all of it.
    let listener = app.run(|| TcpListener::bind((app.address, 7000)).unwrap());
    let mut there = web.run(|| TcpStream::connect((app.address, 7000)).unwrap());
    let (mut here, _) = listener.accept().unwrap();
    let mut talk = || {
        there.write_all(b"!").unwrap();
        here.read_exact(&mut [0]).unwrap();
    };
    talk();
    node.kill();
    talk();
    node.start();
    node.ask(&json!({"keep": ["web", "app", "db"]})).unwrap();
    talk();
    node.facts().assert_same(&both, "adopted");
    let server = "172.17.0.1".parse().unwrap();
    assert_eq!(look_up(&web, server, "lab.app"), Some(vec![app.address]));

    // Somebody else cleared the packet filter meanwhile.
    node.kill();
    node.sh("nft flush ruleset");
    node.start();
    node.ask(&json!({"keep": ["web", "app", "db"]})).unwrap();
    node.facts().assert_same(&both, "with rules restored");
    assert!(reach(&web, (app.address, 8080), Protocol::Tcp, PATIENCE).is_some());
    assert_eq!(
        reach(&db, (app.address, 8080), Protocol::Tcp, SILENCE),
        None
    );

    // The same again changes nothing.
    node.attach(&member("web", "front", 2));
    node.facts().assert_same(&both, "attached again");

    node.kill();
    node.start();
    node.ask(&json!({"keep": ["web"]})).unwrap();
    node.facts().assert_same(&alone, "with one left");
    assert_eq!(look_up(&web, server, "lab.app"), None);
}

#[test]
fn after_a_reboot_everything_is_made_anew() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    node.start();
    node.update(two_networks()).unwrap();
    let (web, app) = (member("web", "front", 2), member("app", "front", 3));
    drop([node.attach(&web), node.attach(&app)]);
    let running = node.facts();
    node.kill();
    let wipe =
        "for it in /run/muster/netns/*; do umount $it; done; rm -rf /run/muster; nft flush ruleset
        for it in $(ip -o link | grep -o 'mbr[0-9a-f]*' | sort -u); do ip link delete $it; done";
    node.sh(wipe);
    node.start();
    node.ask(&json!({"keep": []})).unwrap();
    // The networks are those of before without a word of the controller.
    let (web, app) = (node.attach(&web), node.attach(&app));
    serve(&app, &[8080]);
    assert!(reach(&web, (app.address, 8080), Protocol::Udp, PATIENCE).is_some());
    node.facts().assert_same(&running, "after a reboot");
}

#[test]
fn a_lost_database_leaves_no_orphans() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    let before = node.facts();
    node.start();
    node.update(two_networks()).unwrap();
    let mut web = member("web", "front", 2);
    web["upload"] = json!(5_000_000);
    drop(node.attach(&web));
    node.kill();
    node.lose_database();
    node.start();
    node.ask(&json!({"keep": []})).unwrap();
    node.facts_without_foundations()
        .assert_same(&before, "after the loss");
}

#[test]
fn a_network_that_nobody_wants_goes_with_its_last_instance() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    let before = node.facts();
    node.start();
    node.update(two_networks()).unwrap();
    let web = node.attach(&member("web", "front", 2));
    let with_both = node.facts();
    node.update(json!([])).unwrap();
    let with_front = node.facts();
    assert!(with_front != with_both);
    let server = "172.17.0.1".parse().unwrap();
    assert_eq!(look_up(&web, server, "lab.web"), Some(vec![web.address]));
    let error = node
        .ask(&json!({"attach": member("app", "front", 3)}))
        .unwrap_err();
    assert_eq!(
        error,
        "NotFound: network front of app:lab:0 is none of this node's"
    );
    node.kill();
    node.start();
    node.ask(&json!({"keep": ["web"]})).unwrap();
    node.facts().assert_same(&with_front, "retired");
    node.detach("web");
    node.facts_without_foundations()
        .assert_same(&before, "after the last instance");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &["uplink=eth0"]);
    node.start();
    let error = node.update(json!([
        {"id": "good", "subnet": "10.9.0.0/16", "ip": "10.9.0.1"},
        {"id": "far", "subnet": "10.8.0.0/16", "ip": "10.7.0.1"},
        {"id": "twin", "subnet": "10.9.7.0/24", "ip": "10.9.7.1"},
        {"id": "six", "subnet": "fd00::/64", "ip": "fd00::1"},
    ]));
    let error = error.unwrap_err();
    for part in [
        "3 of the controller's networks: ",
        "network \"far\": ip \"10.7.0.1\" is not an address of the subnet",
        "network twin is not made: it has addresses of the same subnet as network good",
        "cannot make network six: it cannot have rules: the subnet fd00::/64 is not IPv4",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let mut instance = member("one", "front", 2);
    (instance["network"], instance["subnet"]) = (json!("good"), json!("10.9.0.0/16"));
    instance["ip"] = json!("10.9.0.2");
    drop(node.attach(&instance));
    instance["item"] = json!("two");
    let error = node.ask(&json!({"attach": instance})).unwrap_err();
    assert_eq!(
        error,
        "AlreadyExists: the address 10.9.0.2 of two:lab:0 is still that of one:lab:0"
    );
    instance["ip"] = json!("10.9.0.1");
    let error = node.ask(&json!({"attach": instance})).unwrap_err();
    assert!(
        error.starts_with(
            "InvalidArgument: two:lab:0 cannot be in network good: its address 10.9.0.1"
        ),
        "{error}"
    );

    // Another address for the same instance is a new place.
    instance["item"] = json!("one");
    instance["ip"] = json!("10.9.0.3");
    let moved = node.attach(&instance);
    assert_eq!(
        look_up(&moved, "10.9.0.1".parse().unwrap(), "lab.one"),
        Some(vec![moved.address])
    );

    // Kernels without VLANs say so; with them, the link is there.
    let outcome = node
        .update(json!([{"id": "tagged", "subnet": "10.8.0.0/16", "ip": "10.8.0.1", "vlan": 5}]));
    match outcome {
        Ok(_) => assert!(node.facts().contain("mvl")),
        Err(error) => assert!(
            error.contains("with tag 5: this kernel has no VLANs (module 8021q)"),
            "{error}"
        ),
    }
}

#[test]
fn rules_that_somebody_clears_come_back_by_themselves() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &["look-ms=100"]);
    node.start();
    node.update(two_networks()).unwrap();
    let (web, db) = (
        node.attach(&member("web", "front", 2)),
        node.attach(&member("db", "back", 2)),
    );
    serve(&db, &[8080]);
    let before = node.facts();
    node.sh("nft flush ruleset");
    poll_until(PATIENCE, "all rules are there again", || {
        node.facts() == before
    });
    assert_eq!(
        reach(&web, (db.address, 8080), Protocol::Tcp, SILENCE),
        None
    );
}

/// A plugin goes on when its caller is killed; what it makes then must not stay.
#[test]
fn a_plugin_that_outlives_the_manager_leaves_nothing() {
    require!(Root, NetNs, File("/usr/lib/cni/bandwidth"));
    let folder = tempfile::tempdir().unwrap();
    let (mark, plugin) = (folder.path().join("mark"), folder.path().join("bandwidth"));
    let slow = format!(
        "#!/bin/sh\n[ $CNI_COMMAND = DEL ] || {{ touch {}; sleep 2; }}\nexec /usr/lib/cni/bandwidth\n",
        mark.display()
    );
    fs::write(&plugin, slow).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let net = Net::new(&["node"]).unwrap();
    let plugins = format!("plugins={}", folder.path().display());
    let mut node = Node::new(net.host("node"), &[&plugins]);
    node.start();
    node.update(two_networks()).unwrap();
    let before = node.facts();
    let mut web = member("web", "front", 2);
    web["upload"] = json!(5_000_000);
    node.send(&json!({"attach": web}));
    poll_until(PATIENCE, "the plugin runs", || mark.exists());
    node.kill();
    node.start();
    node.ask(&json!({"keep": []})).unwrap();
    node.facts().assert_same(&before, "after the removal");
}
