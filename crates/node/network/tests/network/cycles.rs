//! Coming and going many times.

use muster_lab::net::Net;
use muster_lab::{require, rounds};
use serde_json::json;

use crate::rig::{Node, member, two_networks};

/// Twenty times, two hundred times in a long run.
#[test]
fn instances_that_come_and_go_leave_nothing() {
    require!(Root, NetNs, File("/usr/lib/cni/bandwidth"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    let before = node.facts();
    node.start();
    node.update(two_networks()).unwrap();
    let networks = node.facts();
    let mut instance = member("web", "front", 2);
    instance["upload"] = json!(1_000_000);
    for round in 0..rounds(20, 200) {
        instance["ip"] = json!(format!("172.17.1.{}", round % 250 + 1));
        drop(node.attach(&instance));
        node.detach("web");
    }
    node.facts().assert_same(&networks, "after the last cycle");
    node.update(json!([])).unwrap();
    node.facts_without_foundations()
        .assert_same(&before, "after the networks");
}
