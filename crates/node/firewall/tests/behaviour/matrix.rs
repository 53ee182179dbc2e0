//! Who reaches whom, for every pair of hosts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use muster_api::domain::{FirewallRule, PortRange, TransportProtocol};
use muster_firewall::{Change, Desired, Firewall, InstancePolicy};

use crate::rig::{self, INSTANCES, NODE, OUTSIDE, Rig, Servers, address, network, policy};

const PORTS: [u16; 3] = [53, 80, 90];

fn port(number: u16) -> PortRange {
    PortRange::new(number, number).unwrap()
}

fn rule(to: Ipv4Addr, proto: TransportProtocol, number: u16) -> FirewallRule {
    FirewallRule {
        dst_ip: to.into(),
        dst_port: port(number),
        proto,
        src_ip: None,
    }
}

/// `a` and `b` are open to their subnet, `e` is not; `stranger` has no policy.
fn desired() -> Desired {
    use TransportProtocol::{Tcp, Udp};
    let a = policy("a")
        .same_subnet(true)
        .expose([(Tcp, PortRange::new(79, 81).unwrap())])
        .and_then(|policy| policy.allow(&[rule(address("c"), Tcp, 90), rule(NODE, Tcp, 90)]));
    let b = policy("b").same_subnet(true);
    let e = policy("e")
        .expose([(Tcp, port(80)), (Udp, port(90))])
        .and_then(|policy| policy.allow(&[rule(address("a"), Tcp, 80)]));
    let c = policy("c")
        .expose([(Tcp, port(90)), (Udp, port(90))])
        .and_then(|policy| {
            policy.allow(&[rule(address("e"), Udp, 90), rule(address("e"), Tcp, 90)])
        });
    Desired {
        networks: vec![network("br1"), network("br2")],
        instances: vec![a.unwrap(), b, e.unwrap(), c.unwrap()],
    }
}

/// Everything that is let through between hosts that are not the node; what is not here is not.
fn is_let_through(from: &str, to: &str, protocol: &str, port: u16) -> bool {
    let open = ["a", "b"];
    match (from, to) {
        ("stranger", _) | (_, "stranger") => false,
        ("outside", "a") => (protocol, port) == ("tcp", 80),
        ("outside", "e") => [("tcp", 80), ("udp", 90)].contains(&(protocol, port)),
        ("outside", "c") => port == 90,
        ("outside", _) => false,
        (_, "outside") => true,
        (from, to) if open.contains(&from) && open.contains(&to) => true,
        // `a` is open to its subnet, so it may ask; `e` decides.
        ("a" | "b", "e") => [("tcp", 80), ("udp", 90)].contains(&(protocol, port)),
        ("a", "c") => (protocol, port) == ("tcp", 90),
        // `a` is open to its subnet, so it may be asked; `e` has a rule for one port.
        ("e", "a") => (protocol, port) == ("tcp", 80),
        // It has a rule for TCP, too, which `e` does not expose.
        ("c", "e") => (protocol, port) == ("udp", 90),
        _ => false,
    }
}

fn is_let_to_node(from: &str, at: Ipv4Addr, protocol: &str, port: u16) -> bool {
    let own_bridge = if from == "c" {
        [172, 21, 0, 1]
    } else {
        [172, 20, 0, 1]
    };
    let asks_for_names = at == Ipv4Addr::from(own_bridge) && port == 53;
    match from {
        "outside" => true,
        "stranger" => false,
        "a" => asks_for_names || (at, protocol, port) == (NODE, "tcp", 90),
        _ => asks_for_names,
    }
}

struct Probe {
    from: &'static str,
    to: &'static str,
    at: Ipv4Addr,
    protocol: &'static str,
    port: u16,
    expected: bool,
}

fn probes() -> Vec<Probe> {
    let mut hosts: Vec<(&str, Ipv4Addr)> = INSTANCES.map(|(name, _, at)| (name, at)).to_vec();
    hosts.push(("outside", OUTSIDE));
    let nodes = [
        NODE,
        Ipv4Addr::new(172, 20, 0, 1),
        Ipv4Addr::new(172, 21, 0, 1),
    ];
    let mut probes = Vec::new();
    for protocol in ["tcp", "udp"] {
        for port in PORTS {
            for (from, _) in hosts.iter().copied() {
                for (to, at) in hosts.iter().copied().filter(|(to, _)| *to != from) {
                    let expected = is_let_through(from, to, protocol, port);
                    probes.push(Probe {
                        from,
                        to,
                        at,
                        protocol,
                        port,
                        expected,
                    });
                }
                // A server on all addresses answers the outside from the address that faces it.
                let seen = if from == "outside" {
                    &nodes[..1]
                } else {
                    &nodes[..]
                };
                for at in seen.iter().copied() {
                    let expected = is_let_to_node(from, at, protocol, port);
                    probes.push(Probe {
                        from,
                        to: "node",
                        at,
                        protocol,
                        port,
                        expected,
                    });
                }
            }
            // The node itself may talk with everyone who may answer.
            for (to, at) in hosts.iter().copied() {
                probes.push(Probe {
                    from: "node",
                    to,
                    at,
                    protocol,
                    port,
                    expected: to != "stranger",
                });
            }
        }
    }
    probes
}

fn wrong(rig: &Rig, probes: &[Probe]) -> Vec<String> {
    let ask = |probe: &Probe| {
        let from = rig.host(probe.from);
        let found = match probe.protocol {
            "tcp" => rig::tcp(from, probe.at, probe.port),
            _ => rig::udp(from, probe.at, probe.port),
        };
        let as_node = probe.to == "outside" && probe.from != "node";
        let named = found
            .as_deref()
            .is_none_or(|seen| !as_node || seen == NODE.to_string());
        (found.is_some() != probe.expected || !named).then(|| {
            format!(
                "{} to {} {} {}/{}: {found:?}, expected {}",
                probe.from, probe.to, probe.at, probe.protocol, probe.port, probe.expected
            )
        })
    };
    thread::scope(|scope| {
        let asked: Vec<_> = probes
            .iter()
            .map(|probe| scope.spawn(move || ask(probe)))
            .collect();
        asked
            .into_iter()
            .filter_map(|thread| thread.join().expect("a probe"))
            .collect()
    })
}

fn check_matrix(firewall: &Firewall) {
    let rig = Rig::new();
    let before = rig.tool("node", &["nft", "list", "ruleset"], "");
    rig.on_node(firewall, |firewall| firewall.reconcile(&desired()))
        .unwrap();
    let hosts = ["node", "outside", "a", "b", "e", "stranger", "c"];
    let _servers: Vec<Servers> = hosts
        .iter()
        .map(|host| Servers::start(rig.host(host), &PORTS))
        .collect();

    let probes = probes();
    assert_eq!(wrong(&rig, &probes), Vec::<String>::new());

    // Written again, nothing changes; taken away, nothing is left.
    rig.on_node(firewall, |firewall| firewall.reconcile(&desired()))
        .unwrap();
    let some: Vec<Probe> = probes
        .into_iter()
        .filter(|probe| probe.from == "a")
        .collect();
    assert_eq!(wrong(&rig, &some), Vec::<String>::new());
    rig.on_node(firewall, |firewall| firewall.clear()).unwrap();
    let after = rig.tool("node", &["nft", "list", "ruleset"], "");
    let without_chains_of_others =
        |rules: &str| !rules.contains("MUSTER") && !rules.contains("muster");
    assert!(
        without_chains_of_others(&before) && without_chains_of_others(&after),
        "{after}"
    );
}

#[test]
fn only_what_the_policies_say_passes_with_nft() {
    muster_lab::require!(Root, NetNs);
    check_matrix(&crate::backends()[0].1);
}

#[test]
fn only_what_the_policies_say_passes_with_iptables_on_nftables() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"));
    check_matrix(&crate::backends()[1].1);
}

#[test]
fn only_what_the_policies_say_passes_with_legacy_iptables() {
    muster_lab::require!(Root, NetNs, Tool("iptables-legacy"));
    check_matrix(&crate::backends()[2].1);
}

/// A connection that was let through goes on when its rule is taken away; a new one does not come about.
#[test]
fn new_rules_hold_for_new_connections() {
    muster_lab::require!(Root, NetNs);
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        rig.on_node(&firewall, |firewall| firewall.reconcile(&desired()))
            .unwrap();
        let _servers = Servers::start(rig.host("e"), &[80]);
        assert!(
            rig::tcp(rig.host("a"), address("e"), 80).is_some(),
            "{name}"
        );
        let closed: InstancePolicy = policy("e");
        rig.on_node(&firewall, |firewall| {
            firewall.apply(&[Change::PutInstance(closed)])
        })
        .unwrap();
        assert!(
            rig::tcp(rig.host("a"), address("e"), 80).is_none(),
            "{name}"
        );
    }
}

/// Connections end with the rules of an instance, also those that were let through before.
#[test]
fn an_instance_without_rules_is_cut_off_at_once() {
    muster_lab::require!(Root, NetNs);
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        rig.on_node(&firewall, |firewall| firewall.reconcile(&desired()))
            .unwrap();
        let _servers = [
            Servers::start(rig.host("outside"), &[80]),
            Servers::start(rig.host("b"), &[80]),
            Servers::start(rig.host("node"), &[53]),
        ];
        let node = Ipv4Addr::new(172, 20, 0, 1);
        let connect = |(to, port): (Ipv4Addr, u16)| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.connect((to, port)).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(1)))
                .unwrap();
            socket
        };
        let peers = [(OUTSIDE, 80), (address("b"), 80), (node, 53)];
        let sockets = rig.host("a").run(|| peers.map(connect)).unwrap();
        let answered = || {
            sockets.each_ref().map(|socket| {
                socket.send(b"still there?").unwrap();
                socket.recv(&mut [0; 64]).is_ok()
            })
        };
        assert_eq!(answered(), [true; 3], "{name}");
        let a = policy("a").instance().clone();
        let apply = |change: Change| {
            rig.on_node(&firewall, |firewall| firewall.apply(&[change]))
                .unwrap()
        };
        apply(Change::RemoveInstance(a));
        assert_eq!(answered(), [false; 3], "{name}");
        apply(Change::PutInstance(policy("a").same_subnet(true)));
        assert_eq!(answered(), [true; 3], "{name}");
    }
}

/// Instances have no IPv6 addresses that anyone gave them, but links have: nothing passes that way.
#[test]
fn nothing_passes_by_ipv6() {
    muster_lab::require!(Root, NetNs);
    let firewall = &crate::backends()[0].1;
    let rig = Rig::new();
    let local = |host: &str, link: &str| -> Option<Ipv6Addr> {
        let text = rig.tool(
            host,
            &[
                "ip", "-6", "-oneline", "address", "show", "dev", link, "scope", "link",
            ],
            "",
        );
        text.split(' ')
            .find_map(|word| word.strip_suffix("/64")?.parse().ok())
    };
    let index = |host: &str| -> u32 {
        let text = rig.tool(host, &["ip", "-oneline", "link", "show", "dev", "eth0"], "");
        text.split(':').next().unwrap().parse().unwrap()
    };
    let listen = |host: &str| {
        let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, 80)).unwrap();
        rig.host(host).run(bind).unwrap()
    };
    let reaches = |to: Ipv6Addr| {
        let at = SocketAddrV6::new(to, 80, 0, index("a"));
        let patience = Duration::from_millis(1500);
        rig.host("a")
            .run(|| TcpStream::connect_timeout(&at.into(), patience).is_ok())
            .unwrap()
    };
    let _servers = [listen("node"), listen("b")];
    let time = Duration::from_secs(20);
    let node = muster_lab::poll_for(time, "the bridge has an address", || local("node", "br1"));
    let b = muster_lab::poll_for(time, "the instance has an address", || local("b", "eth0"));
    muster_lab::poll_until(time, "the addresses are usable", || {
        reaches(node) && reaches(b)
    });
    rig.on_node(firewall, |firewall| firewall.reconcile(&desired()))
        .unwrap();
    assert!(!reaches(node) && !reaches(b));
    assert_eq!(local("node", "br1"), None);
}
