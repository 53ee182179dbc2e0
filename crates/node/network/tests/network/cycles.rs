//! Coming and going many times.

use muster_lab::net::Net;
use muster_lab::{require, rounds};
use serde_json::{Value, json};

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

/// Twelve instances at once, two of which want the same address: one of these is told so, and no other is hurt.
#[test]
fn instances_that_come_at_the_same_time_get_what_each_was_promised() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    let before = node.facts();
    node.start();
    node.update(two_networks()).unwrap();
    let name = |number: u8| format!("item-{number}");
    let mut all: Vec<Value> = (2..13)
        .map(|last| {
            member(
                &name(last),
                if last % 2 == 0 { "front" } else { "back" },
                last,
            )
        })
        .collect();
    all.push(member("twin", "front", 2));
    let started = std::time::Instant::now();
    let answers = node.ask(&json!({"attach-all": all})).unwrap();
    eprintln!("twelve instances in {:?}", started.elapsed());
    let refused: Vec<&str> = answers
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(refused.len(), 1, "{answers}");
    assert!(
        refused[0].starts_with("AlreadyExists: the address 172.17.0.2 of "),
        "{refused:?}"
    );
    node.ask(&json!({"keep": []})).unwrap();
    node.update(json!([])).unwrap();
    node.facts_without_foundations()
        .assert_same(&before, "after all");
}
