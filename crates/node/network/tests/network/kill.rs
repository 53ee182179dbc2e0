//! Killed at every moment that matters.

use muster_fault::{Point, matrix};
use muster_lab::net::Net;
use muster_lab::require;
use serde_json::{Value, json};

use crate::rig::{Node, member, two_networks};

/// What a controller and a launcher ask for, with the instances that run afterwards.
fn story() -> Vec<(Value, &'static [&'static str])> {
    let mut web = member("web", "front", 2);
    web["upload"] = json!(5_000_000);
    vec![
        (json!({"update": two_networks()}), &[]),
        (json!({"attach": web}), &["web"]),
        (json!({"attach": member("app", "back", 2)}), &["web", "app"]),
        (json!({"detach": "app"}), &["web"]),
        (json!({"update": [two_networks()[0]]}), &["web"]),
    ]
}

/// Carries the story out. When the daemon dies, another one takes over, keeps what runs, and is asked the same again.
fn live_through(node: &mut Node) {
    let mut running: &[&str] = &[];
    for (request, then) in story() {
        let mut answer = node.ask(&request);
        if answer == Err("gone".to_owned()) {
            node.wait();
            node.start();
            node.ask(&json!({"keep": running})).unwrap();
            answer = node.ask(&request);
        }
        answer.unwrap();
        running = then;
    }
}

/// The first time that a point is reached, and a later time: the first plugin of a list is not like the last one.
fn killed_anywhere(points: &[Point], nth: u64) {
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    let empty = node.facts();
    node.start();
    live_through(&mut node);
    let expected = node.facts();
    node.kill();
    drop(node);

    matrix(points, |trial| {
        let net = Net::new(&["node"]).unwrap();
        let mut node = Node::new(net.host("node"), &[]);
        let mut command = node.daemon();
        trial.arm_at(&mut command, nth, muster_fault::Action::Kill);
        node.start_with(command);
        node.answer().unwrap();
        live_through(&mut node);
        node.facts().assert_same(&expected, trial.point().name());
        node.ask(&json!({"detach": "web"})).unwrap();
        node.ask(&json!({"update": []})).unwrap();
        node.facts_without_foundations()
            .assert_same(&empty, trial.point().name());
    });
}

#[test]
fn a_manager_killed_at_any_point_gets_to_the_same_end() {
    require!(Root, NetNs, File("/usr/lib/cni/bandwidth"));
    killed_anywhere(muster_network::FAULT_POINTS, 1);
}

#[test]
fn a_manager_killed_between_plugins_gets_to_the_same_end() {
    require!(Root, NetNs, File("/usr/lib/cni/bandwidth"));
    killed_anywhere(muster_cni::FAULT_POINTS, 1);
    let several = ["cni.plugin-added", "cni.result-kept", "cni.plugin-deleted"];
    let later: Vec<Point> = (muster_cni::FAULT_POINTS.iter().copied())
        .filter(|point| several.contains(&point.name()))
        .collect();
    assert_eq!(later.len(), several.len());
    killed_anywhere(&later, 3);
}
