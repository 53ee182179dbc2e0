//! One network on several nodes.

use muster_lab::net::Net;
use muster_lab::require;
use serde_json::{Value, json};

use crate::rig::{Facts, Instance, Node};
use crate::wire::{PATIENCE, Protocol, SILENCE, reach, serve};

fn list(last: u8) -> Value {
    json!([
        {"id": "front", "subnet": "172.17.0.0/16", "ip": format!("172.17.0.{last}")},
        {"id": "back", "subnet": "172.18.0.0/16", "ip": "172.18.0.1"},
    ])
}

fn member(item: &str, last: u8, exposed: &[&str]) -> Value {
    let ip = format!("172.17.1.{last}");
    json!({"item": item, "network": "front", "subnet": "172.17.0.0/16", "ip": ip, "exposed": exposed})
}

/// Every instance of every other.
fn check_all(instances: &[Instance], port: u16, expected: bool) {
    let within = if expected { PATIENCE } else { SILENCE };
    std::thread::scope(|scope| {
        for from in instances {
            for to in instances.iter().filter(|to| to.address != from.address) {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    scope.spawn(move || {
                        let seen = reach(from, (to.address, port), protocol, within);
                        let wanted = expected.then_some(from.address.into());
                        assert_eq!(
                            seen, wanted,
                            "{} to {}:{port} {protocol:?}",
                            from.address, to.address
                        );
                    });
                }
            }
        }
    });
}

/// Three nodes on one wire, each with its own part of one subnet; no VLAN is needed where a link is the network's own.
#[test]
fn instances_of_one_network_reach_each_other_across_nodes() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let names = ["main", "second", "third"];
    let net = Net::new(&names).unwrap();
    let mut nodes: Vec<Node> = (names.iter())
        .map(|name| Node::new(net.host(name), &["untagged=front@eth0"]))
        .collect();
    let before: Vec<Facts> = nodes.iter().map(Node::facts).collect();
    let mut instances = Vec::new();
    for (last, node) in (1..).zip(&mut nodes) {
        node.start();
        node.update(list(last)).unwrap();
        for (at, item) in ["one", "two"].into_iter().enumerate() {
            let instance = node.attach(&member(
                item,
                last * 10 + u8::try_from(at).unwrap(),
                &["8080"],
            ));
            serve(&instance, &[8080]);
            instances.push(instance);
        }
    }
    check_all(&instances, 8080, true);

    // A restart changes nothing for others.
    nodes[1].kill();
    check_all(&instances, 8080, true);
    nodes[1].start();
    nodes[1].ask(&json!({"keep": ["one", "two"]})).unwrap();
    check_all(&instances, 8080, true);

    // An instance that moves is found at its new place.
    instances.retain(|it| it.address.octets()[3] != 10);
    nodes[0].detach("one");
    let moved = nodes[2].attach(&member("moved", 10, &[]));
    serve(&moved, &[8080]);
    instances.push(moved);
    check_all(&instances, 8080, true);

    drop(instances);
    for (node, before) in nodes.iter_mut().zip(&before) {
        node.ask(&json!({"keep": []})).unwrap();
        node.update(json!([])).unwrap();
        node.facts_without_foundations()
            .assert_same(before, "after the teardown");
    }
}

#[test]
fn rules_hold_between_nodes_as_well() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let names = ["main", "second"];
    let net = Net::new(&names).unwrap();
    let settings = ["untagged=front@eth0", "same-subnet=deny"];
    let mut nodes: Vec<Node> = names
        .iter()
        .map(|name| Node::new(net.host(name), &settings))
        .collect();
    for (last, node) in (1..).zip(&mut nodes) {
        node.start();
        node.update(list(last)).unwrap();
    }
    let mut client = member("client", 10, &[]);
    client["allowed"] = json!([["172.17.1.20", "8080-9090", "tcp"]]);
    let (client, server) = (
        nodes[0].attach(&client),
        nodes[1].attach(&member("server", 20, &["8080"])),
    );
    serve(&server, &[8080, 9090]);
    let seen = |port, protocol, within| reach(&client, (server.address, port), protocol, within);
    assert_eq!(
        seen(8080, Protocol::Tcp, PATIENCE),
        Some(client.address.into())
    );
    // Allowed to call but not exposed, and exposed but not allowed.
    assert_eq!(seen(9090, Protocol::Tcp, SILENCE), None);
    assert_eq!(seen(8080, Protocol::Udp, SILENCE), None);
}
