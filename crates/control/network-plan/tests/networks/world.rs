//! Small Units, written briefly or made at random.

use muster_api::domain::{
    InstanceIdent, ItemId, ItemType, NodeId, OwnerId, PortRange, SubjectId, TransportProtocol,
};
use muster_item::{AllowedConnection, ExposedPort};
use muster_network_plan::{
    Endpoint, ForeignSubnets, NetworkKey, NetworkRequest, Settings, SubnetPool,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn ident(item: &str, subject: &str, number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new(item).expect("test ids keep the rules"),
        subject_id: SubjectId::new(subject).expect("test ids keep the rules"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

pub(crate) fn owner(name: &str) -> NetworkKey {
    NetworkKey::Owner(OwnerId::new(name).expect("test ids keep the rules"))
}

/// An instance for `subject` that neither exposes nor calls anything.
pub(crate) fn endpoint(item: &str, number: u64, node: &str, network: &str) -> Endpoint {
    Endpoint {
        instance: ident(item, "subject", number),
        node: NodeId::new(node).expect("test ids keep the rules"),
        network: owner(network),
        hostname: None,
        exposed: Vec::new(),
        allowed: Vec::new(),
    }
}

pub(crate) fn exposed(ports: &str, protocol: &str) -> ExposedPort {
    ExposedPort {
        ports: ports.parse().expect("ports"),
        protocol: protocol.parse().expect("a protocol"),
    }
}

pub(crate) fn allowed(item: &str, ports: &str, protocol: &str) -> AllowedConnection {
    AllowedConnection {
        item: ItemId::new(item).expect("test ids keep the rules"),
        ports: ports.parse().expect("ports"),
        protocol: protocol.parse().expect("a protocol"),
    }
}

pub(crate) fn request(endpoints: Vec<Endpoint>) -> NetworkRequest {
    NetworkRequest {
        endpoints,
        ..NetworkRequest::default()
    }
}

pub(crate) fn foreign(node: &str, subnets: &[&str]) -> ForeignSubnets {
    let subnets = subnets
        .iter()
        .map(|subnet| subnet.parse().expect("a subnet"));
    ForeignSubnets {
        node: NodeId::new(node).expect("test ids keep the rules"),
        subnets: subnets.collect(),
    }
}

/// Subnets of a range.
pub(crate) fn pool(range: &str, prefix_length: u8) -> SubnetPool {
    SubnetPool::new(vec![range.parse().expect("a block")], prefix_length).expect("a pool")
}

const ITEMS: [&str; 4] = ["web", "db", "cache", "worker"];
const SUBJECTS: [&str; 2] = ["anna", "bert"];
const NODES: [&str; 3] = ["main", "left", "right"];
/// One owner has the id of a subject.
const OWNERS: [&str; 3] = ["acme", "bolt", "anna"];

/// Ports are few, so that what is allowed and what is exposed meet.
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = 1..=12;

fn any_ports() -> impl Strategy<Value = PortRange> {
    (PORTS, 0_u16..4).prop_filter_map("a range", |(first, length)| {
        PortRange::new(first, (first + length).min(*PORTS.end())).ok()
    })
}

fn any_protocol() -> impl Strategy<Value = TransportProtocol> {
    select(vec![TransportProtocol::Tcp, TransportProtocol::Udp])
}

fn any_network() -> impl Strategy<Value = Option<&'static str>> {
    option::weighted(0.8, select(&OWNERS[..]))
}

type Key = (&'static str, &'static str, u64);

prop_compose! {
    fn any_details()(
        node in select(&NODES[..]),
        network in any_network(),
        hostname in option::weighted(0.3, select(vec!["www", "store", "0.anna.web", "no name"])),
        exposed in vec((any_ports(), any_protocol()), 0..3),
        allowed in vec((select(&ITEMS[..]), any_ports(), any_protocol()), 0..3),
    ) -> Endpoint {
        let mut made = endpoint("unnamed", 0, node, network.unwrap_or("none"));
        if network.is_none() {
            made.network = NetworkKey::Subject(made.instance.subject_id.clone());
        }
        made.hostname = hostname.map(str::to_owned);
        let port = |(ports, protocol)| ExposedPort { ports, protocol };
        made.exposed = exposed.into_iter().map(port).collect();
        let connection = |(item, ports, protocol)| AllowedConnection {
            item: ItemId::new(item).expect("test ids keep the rules"),
            ports,
            protocol,
        };
        made.allowed = allowed.into_iter().map(connection).collect();
        made
    }
}

/// Instances with all that a network plan asks about them.
pub(crate) fn any_endpoints() -> BoxedStrategy<Vec<Endpoint>> {
    let key = (select(&ITEMS[..]), select(&SUBJECTS[..]), 0_u64..3);
    let named = |(key, mut made): (Key, Endpoint)| {
        made.instance = ident(key.0, key.1, key.2);
        if let NetworkKey::Subject(subject) = &mut made.network {
            *subject = made.instance.subject_id.clone();
        }
        made
    };
    btree_map(key, any_details().boxed(), 0..14)
        .prop_map(move |all| all.into_iter().map(named).collect())
        .boxed()
}

/// What nodes use besides.
pub(crate) fn any_foreign() -> BoxedStrategy<Vec<ForeignSubnets>> {
    let subnets = vec![
        "172.17.0.0/16",
        "172.18.3.0/24",
        "172.16.0.0/13",
        "10.0.0.0/8",
        "0.0.0.0/0",
        "fd00::/64",
        "172.31.255.1/32",
    ];
    let of_node = vec(select(subnets), 0..2);
    vec(of_node, NODES.len())
        .prop_map(|all| {
            let pairs = NODES.iter().zip(all);
            pairs
                .map(|(node, subnets)| foreign(node, &subnets))
                .collect()
        })
        .boxed()
}

/// Pools from ample to tiny.
pub(crate) fn any_settings() -> BoxedStrategy<Settings> {
    let pools = vec![
        SubnetPool::default(),
        pool("172.17.0.0/16", 24),
        pool("10.9.0.0/27", 28),
        pool("10.9.0.0/28", 29),
    ];
    (select(pools), select(vec![1024_usize, 2, 0]))
        .prop_map(|(pool, remember)| Settings { pool, remember })
        .boxed()
}
