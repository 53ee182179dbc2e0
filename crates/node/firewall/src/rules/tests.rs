use std::net::{IpAddr, Ipv4Addr};

use muster_api::domain::FirewallRule;
use proptest::prelude::*;

use super::*;
use crate::names::{InstanceId, LinkName};
use crate::policy::{InstancePolicy, NetworkPolicy};
use crate::subnet::is_local;

/// A packet that begins a connection.
#[derive(Debug, Clone, Copy)]
struct Packet {
    peer: Ipv4Addr,
    /// `None`: a protocol without ports.
    transport: Option<(TransportProtocol, u16)>,
}

/// What the kernel does with a chain.
fn run(chain: &[Rule], packet: Packet) -> Verdict {
    let peer = |peer: Peer| match peer {
        Peer::Any => true,
        Peer::Within(subnet) => subnet.contains(packet.peer),
        Peer::Local => is_local(packet.peer),
    };
    let transport = |rule: Option<(TransportProtocol, PortRange)>| match (rule, packet.transport) {
        (None, _) => true,
        (Some((wanted, ports)), Some((protocol, port))) => {
            wanted == protocol && (ports.first()..=ports.last()).contains(&port)
        }
        (Some(_), None) => false,
    };
    let met = chain
        .iter()
        .find(|rule| peer(rule.peer) && transport(rule.transport));
    met.expect("a chain ends with a rule that meets everything")
        .verdict
}

/// A small world, so that chance finds what matters: two subnets of two addresses each, one of them public, and the outside.
fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop::sample::select(vec![
        Ipv4Addr::new(172, 17, 0, 2),
        Ipv4Addr::new(172, 17, 0, 3),
        Ipv4Addr::new(198, 51, 100, 2),
        Ipv4Addr::new(198, 51, 100, 3),
        Ipv4Addr::new(192, 168, 1, 9),
        Ipv4Addr::new(203, 0, 113, 5),
        Ipv4Addr::BROADCAST,
    ])
}

fn protocol() -> impl Strategy<Value = TransportProtocol> {
    use TransportProtocol::{Sctp, Tcp, Udp};
    prop::sample::select(vec![Tcp, Udp, Sctp])
}

fn ports() -> impl Strategy<Value = PortRange> {
    (1u16..6, 0u16..3).prop_map(|(first, more)| PortRange::new(first, first + more).unwrap())
}

fn packet() -> impl Strategy<Value = Packet> {
    (address(), prop::option::of((protocol(), 1u16..9)))
        .prop_map(|(peer, transport)| Packet { peer, transport })
}

#[derive(Debug, Clone)]
struct Wanted {
    public: bool,
    same_subnet: bool,
    exposed: Vec<(TransportProtocol, PortRange)>,
    rules: Vec<FirewallRule>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let rule = (address(), ports(), protocol(), prop::option::of(address())).prop_map(
        |(to, dst_port, proto, from)| FirewallRule {
            dst_ip: IpAddr::V4(to),
            dst_port,
            proto,
            src_ip: from.map(IpAddr::V4),
        },
    );
    let exposed = prop::collection::vec((protocol(), ports()), 0..4);
    (
        any::<bool>(),
        any::<bool>(),
        exposed,
        prop::collection::vec(rule, 0..5),
    )
        .prop_map(|(public, same_subnet, exposed, rules)| Wanted {
            public,
            same_subnet,
            exposed,
            rules,
        })
}

impl Wanted {
    fn address(&self) -> Ipv4Addr {
        if self.public {
            Ipv4Addr::new(198, 51, 100, 2)
        } else {
            Ipv4Addr::new(172, 17, 0, 2)
        }
    }

    fn subnet(&self) -> Ipv4Subnet {
        Ipv4Subnet::new(self.address(), 24).unwrap()
    }

    fn compile(&self) -> InstanceRules {
        let node = Ipv4Addr::from_bits(self.subnet().network().to_bits() + 1);
        let bridge = LinkName::new("br0").unwrap();
        let network = NetworkPolicy::new(bridge, self.subnet(), node).unwrap();
        let id = InstanceId::new("one").unwrap();
        let policy = InstancePolicy::new(id, &network, self.address().into())
            .and_then(|policy| {
                policy
                    .same_subnet(self.same_subnet)
                    .expose(self.exposed.clone())
            })
            .and_then(|policy| policy.allow(&self.rules))
            .unwrap();
        compile(&policy)
    }

    fn is_allowed(&self, packet: Packet) -> bool {
        packet.transport.is_some_and(|(protocol, port)| {
            self.rules.iter().any(|rule| {
                rule.dst_ip == packet.peer
                    && rule.proto == protocol
                    && (rule.dst_port.first()..=rule.dst_port.last()).contains(&port)
                    && rule.src_ip.is_none_or(|from| from == self.address())
            })
        })
    }

    fn is_exposed(&self, packet: Packet) -> bool {
        packet.transport.is_some_and(|(protocol, port)| {
            self.exposed.iter().any(|(wanted, ports)| {
                *wanted == protocol && (ports.first()..=ports.last()).contains(&port)
            })
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn rules_mean_what_the_policy_says(wanted in wanted(), packet in packet()) {
        let rules = wanted.compile();
        let among_us = wanted.subnet().contains(packet.peer);
        let outside = !is_local(packet.peer) && !among_us;
        let verdict = |permitted| if permitted { Verdict::Permit } else { Verdict::Refuse };

        let leaves = outside || wanted.is_allowed(packet) || (among_us && wanted.same_subnet);
        prop_assert_eq!(run(&rules.outgoing, packet), verdict(leaves));
        let arrives = wanted.is_exposed(packet) || (among_us && wanted.same_subnet);
        prop_assert_eq!(run(&rules.incoming, packet), verdict(arrives));
        // Whatever else it may do, the node itself is reached only by a rule of its own.
        prop_assert_eq!(run(&rules.to_node, packet), verdict(wanted.is_allowed(packet)));
    }
}
