//! Who reaches whom.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;

use muster_lab::net::Net;
use muster_lab::require;
use serde_json::json;

use crate::rig::{Instance, Node, in_network, member, two_networks};
use crate::wire::{PATIENCE, Protocol, SILENCE, look_up, reach, serve, serve_on};

const OPEN: u16 = 8080;
const CLOSED: u16 = 9090;
/// Documentation addresses: what the rules take for the outside.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const NODE_OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

type Instances = BTreeMap<&'static str, Instance>;

/// Four instances on two networks: `web` may call `db` by TCP and `log` by UDP; `db` and `log` expose these ports.
fn four_instances(node: &mut Node) -> Instances {
    let port = OPEN.to_string();
    let mut web = member("web", "front", 2);
    web["hostname"] = json!("www");
    web["exposed"] = json!(["8080/tcp", "8080/udp"]);
    web["allowed"] = json!([
        ["172.18.0.2", port, "tcp"],
        ["172.18.0.3", port, "udp"],
        ["172.18.0.3", "9090", "udp"]
    ]);
    let app = member("app", "front", 3);
    let mut db = member("db", "back", 2);
    db["exposed"] = json!(["8080"]);
    let mut log = member("log", "back", 3);
    log["exposed"] = json!(["8080/udp"]);
    log["allowed"] = json!([["172.17.0.2", "8000-8100", "tcp"]]);
    let all = [("web", web), ("app", app), ("db", db), ("log", log)];
    let mut instances = Instances::new();
    for (name, instance) in all {
        let made = node.attach(&instance);
        serve(&made, &[OPEN, CLOSED]);
        instances.insert(name, made);
    }
    instances
}

/// Connects every instance with every other one, by both protocols, to both ports; answers what was reached.
fn measure(instances: &Instances, expected: impl Fn(&str, &str, Protocol, u16) -> bool + Sync) {
    let wrong = std::thread::scope(|scope| {
        let mut checks = Vec::new();
        for (from, source) in instances {
            for (to, target) in instances.iter().filter(|(to, _)| *to != from) {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    for port in [OPEN, CLOSED] {
                        let expected = expected(from, to, protocol, port);
                        let within = if expected { PATIENCE } else { SILENCE };
                        let check = move || {
                            let seen = reach(source, (target.address, port), protocol, within);
                            // Nobody between two instances changes addresses.
                            let right = seen == expected.then_some(source.address.into());
                            (!right).then(|| format!("{from} to {to}:{port} {protocol:?}: {seen:?}, expected {expected}"))
                        };
                        checks.push(scope.spawn(check));
                    }
                }
            }
        }
        let wrong = checks.into_iter().filter_map(|it| it.join().unwrap());
        wrong.collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn outside_of(net: &Net) {
    for (host, address) in [("outside", OUTSIDE), ("node", NODE_OUTSIDE)] {
        let mut command = net.host(host).command("ip");
        let address = format!("{address}/24");
        assert!(
            command
                .args(["address", "add", &address, "dev", "eth0"])
                .status()
                .unwrap()
                .success()
        );
    }
    net.host("outside")
        .run(|| [OPEN, CLOSED].map(|port| serve_on(OUTSIDE, port)))
        .unwrap();
}

fn allowed_by_rules(from: &str, to: &str, protocol: Protocol, port: u16) -> bool {
    match (from, to) {
        ("web", "db") => protocol == Protocol::Tcp && port == OPEN,
        // Allowed to call, but not exposed.
        ("web", "log") => protocol == Protocol::Udp && port == OPEN,
        ("log", "web") => protocol == Protocol::Tcp && port == OPEN,
        _ => false,
    }
}

fn network_of(name: &str) -> &'static str {
    if ["web", "app"].contains(&name) {
        "front"
    } else {
        "back"
    }
}

#[test]
fn every_pair_of_instances_reaches_what_it_may_and_nothing_else() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node", "outside"]).unwrap();
    outside_of(&net);
    let mut node = Node::new(net.host("node"), &[]);
    let before = node.facts();
    node.start();
    node.update(two_networks()).unwrap();
    let instances = four_instances(&mut node);

    measure(&instances, |from, to, protocol, port| {
        network_of(from) == network_of(to) || allowed_by_rules(from, to, protocol, port)
    });
    to_the_outside(&instances);
    names(&instances);
    services_of_the_node(&node, &instances);

    drop(instances);
    for name in ["web", "app", "db", "log"] {
        node.detach(name);
    }
    node.update(json!([])).unwrap();
    node.facts_without_foundations()
        .assert_same(&before, "after the teardown");
}

/// The outside sees the node's address, and reaches nobody.
fn to_the_outside(instances: &Instances) {
    for (name, instance) in instances {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let seen = reach(instance, (OUTSIDE, OPEN), protocol, PATIENCE);
            assert_eq!(seen, Some(NODE_OUTSIDE.into()), "{name} {protocol:?}");
        }
    }
}

fn names(instances: &Instances) {
    let front: Ipv4Addr = "172.17.0.1".parse().unwrap();
    let (web, app) = (&instances["web"], &instances["app"]);
    assert_eq!(app.answer["name_servers"], json!(["172.17.0.1"]));
    assert_eq!(web.answer["hostname"], json!("www"));
    let id = app.answer["namespace"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap();
    assert_eq!(app.answer["hostname"], json!(id));
    for name in [
        "www",
        "www.front",
        "WWW",
        "0.lab.web",
        "lab.web",
        "0.lab.web.front",
    ] {
        assert_eq!(look_up(app, front, name), Some(vec![web.address]), "{name}");
    }
    assert_eq!(look_up(web, front, id), Some(vec![app.address]));
    // The names of one network are not those of another.
    assert_eq!(look_up(app, front, "lab.db"), None);
    let back = "172.18.0.1".parse().unwrap();
    assert_eq!(
        look_up(&instances["log"], back, "lab.db"),
        Some(vec![instances["db"].address])
    );
}

/// Of the node's own services an instance reaches names and nothing else.
fn services_of_the_node(node: &Node, instances: &Instances) {
    let bridge = Ipv4Addr::new(172, 17, 0, 1);
    in_network(&File::open(node.network()).unwrap(), || {
        serve_on(bridge, 7070)
    });
    let app = &instances["app"];
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        assert_eq!(reach(app, (bridge, 7070), protocol, SILENCE), None);
    }
}

#[test]
fn without_trust_in_the_subnet_rules_decide_within_it_too() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &["same-subnet=deny"]);
    node.start();
    node.update(two_networks()).unwrap();
    let mut instances = Instances::new();
    let mut one = member("one", "front", 2);
    one["allowed"] = json!([["172.17.0.3", "8080", "tcp"], ["172.17.0.3", "9090", "tcp"]]);
    let mut two = member("two", "front", 3);
    two["exposed"] = json!(["8080"]);
    for (name, instance) in [
        ("one", one),
        ("two", two),
        ("three", member("three", "back", 2)),
    ] {
        let made = node.attach(&instance);
        serve(&made, &[OPEN, CLOSED]);
        instances.insert(name, made);
    }
    measure(&instances, |from, to, protocol, port| {
        (from, to, protocol, port) == ("one", "two", Protocol::Tcp, OPEN)
    });
}

#[test]
fn traffic_with_the_outside_is_counted_to_the_byte() {
    require!(Root, NetNs, File("/usr/lib/cni/bridge"));
    let net = Net::new(&["node", "outside"]).unwrap();
    outside_of(&net);
    let mut node = Node::new(net.host("node"), &[]);
    node.start();
    node.update(two_networks()).unwrap();
    let mut web = member("web", "front", 2);
    web["counted"] = json!(true);
    let (web, app) = (node.attach(&web), node.attach(&member("app", "front", 3)));
    serve(&app, &[OPEN]);
    // Something local, which does not count.
    assert!(reach(&web, (app.address, OPEN), Protocol::Udp, PATIENCE).is_some());

    let received = net
        .host("outside")
        .run(|| std::net::UdpSocket::bind((OUTSIDE, 7000)).unwrap())
        .unwrap();
    received.set_read_timeout(Some(PATIENCE)).unwrap();
    let (packets, size) = (2000_u64, 1000_usize);
    web.run(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let mut acknowledged = [0; 8];
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = vec![7; 2000];
        for number in 0..packets {
            socket.send_to(&vec![1; size], (OUTSIDE, 7000)).unwrap();
            // One at a time, so that none is lost; every tenth is answered.
            let (length, peer) = received.recv_from(&mut buffer).unwrap();
            assert_eq!((length, peer.ip()), (size, NODE_OUTSIDE.into()));
            if number % 10 == 0 {
                received.send_to(&[0; 8], peer).unwrap();
                socket.recv(&mut acknowledged).unwrap();
            }
        }
    });
    let usage = node.ask(&json!({"traffic": "web"})).unwrap();
    let headers = 28;
    let (sent, answered) = (packets * (1000 + headers), packets / 10 * (8 + headers));
    for (counted, real) in [(&usage["upload"], sent), (&usage["download"], answered)] {
        let counted = counted.as_u64().unwrap();
        let difference = counted.abs_diff(real);
        assert!(difference * 50 <= real, "{counted} counted, {real} sent");
    }
}
