//! What holds for every Unit, while instances come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use muster_api::domain::{InstanceIdent, NetworkId, NodeId, TransportProtocol};
use muster_api::servicemanager::v5 as wire;
use muster_network_plan::{
    Allocations, AttachError, Block, Endpoint, NetworkPlan, NetworkRequest, Note, Settings, plan,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::world::{PORTS, any_endpoints, any_foreign, any_settings};

fn planned(request: &NetworkRequest, allocations: &Allocations) -> NetworkPlan {
    plan(request, allocations).expect("made requests do not contradict themselves")
}

/// As after a restart of whoever keeps them.
fn reread(allocations: &Allocations) -> Allocations {
    let text = serde_json::to_string(allocations).expect("allocations can be written");
    serde_json::from_str(&text).expect("and read again")
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => panic!("plans are for IPv4"),
    }
}

/// All addresses in use, by network.
fn holders(plan: &NetworkPlan) -> BTreeMap<(NetworkId, Ipv4Addr), Vec<String>> {
    let mut holders: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (node, networks) in &plan.nodes {
        for network in networks {
            let key = (network.network_id.clone(), network.ip);
            holders.entry(key).or_default().push(format!("node {node}"));
        }
    }
    for (ident, parameters) in &plan.instances {
        let key = (parameters.network_id.clone(), v4(parameters.ip));
        holders.entry(key).or_default().push(ident.to_string());
    }
    holders
}

fn networks(plan: &NetworkPlan) -> BTreeMap<NetworkId, (Block, u16)> {
    let all = plan.nodes.values().flatten();
    all.map(|network| {
        let subnet = network.subnet.to_string().parse().expect("an IPv4 subnet");
        (network.network_id.clone(), (subnet, network.vlan.get()))
    })
    .collect()
}

fn nothing_is_given_twice(plan: &NetworkPlan) -> Result<(), TestCaseError> {
    for ((network, address), holders) in holders(plan) {
        prop_assert_eq!(
            holders.len(),
            1,
            "{} in {} is held by {:?}",
            address,
            network,
            holders
        );
    }
    let mut of_network = BTreeMap::new();
    for network in plan.nodes.values().flatten() {
        let same = (network.subnet, network.vlan);
        let known = of_network.entry(&network.network_id).or_insert(same);
        prop_assert_eq!(*known, same, "a network is the same on all nodes");
    }
    let all: Vec<_> = networks(plan).into_values().collect();
    for (index, (subnet, vlan)) in all.iter().enumerate() {
        prop_assert!((1..4095).contains(vlan));
        for (other, other_vlan) in &all[..index] {
            prop_assert!(!subnet.overlaps(*other), "{} and {}", subnet, other);
            prop_assert_ne!(vlan, other_vlan);
        }
    }
    Ok(())
}

fn addresses_are_of_hosts(plan: &NetworkPlan) -> Result<(), TestCaseError> {
    let networks = networks(plan);
    for (network, address) in holders(plan).into_keys() {
        let (subnet, _) = networks[&network];
        let size = 1_u64 << (32 - subnet.prefix_length());
        let offset =
            u64::from(u32::from(address)).wrapping_sub(u64::from(u32::from(subnet.first())));
        prop_assert!((2..size - 1).contains(&offset), "{} in {}", address, subnet);
    }
    Ok(())
}

fn everyone_is_attached_or_refused(
    request: &NetworkRequest,
    plan: &NetworkPlan,
) -> Result<(), TestCaseError> {
    let decided: BTreeSet<_> = plan.instances.keys().chain(plan.refused.keys()).collect();
    prop_assert_eq!(
        decided,
        request.endpoints.iter().map(|own| &own.instance).collect()
    );
    for endpoint in &request.endpoints {
        let Some(parameters) = plan.instances.get(&endpoint.instance) else {
            continue;
        };
        prop_assert_eq!(&parameters.network_id, &endpoint.network.network_id());
        let mut on_node = plan.nodes[&endpoint.node].iter();
        let network = on_node.find(|network| network.network_id == parameters.network_id);
        prop_assert_eq!(
            network.map(|network| network.subnet),
            Some(parameters.subnet)
        );
    }
    Ok(())
}

/// Whether rules let an instance reach a port.
fn opens(
    plan: &NetworkPlan,
    from: &Endpoint,
    to: &Endpoint,
    port: u16,
    protocol: TransportProtocol,
) -> bool {
    let destination = plan.instances[&to.instance].ip;
    let mut rules = plan.instances[&from.instance].rules.iter();
    rules.any(|rule| {
        rule.dst_ip == destination
            && rule.proto == protocol
            && (rule.dst_port.first()..=rule.dst_port.last()).contains(&port)
    })
}

fn rules_are_what_is_allowed(
    request: &NetworkRequest,
    plan: &NetworkPlan,
) -> Result<(), TestCaseError> {
    let attached = |own: &&Endpoint| plan.instances.contains_key(&own.instance);
    let attached: Vec<&Endpoint> = request.endpoints.iter().filter(attached).collect();
    let addresses: BTreeSet<IpAddr> = plan.instances.values().map(|own| own.ip).collect();
    for from in &attached {
        let own = &plan.instances[&from.instance];
        for rule in &own.rules {
            prop_assert_eq!(rule.src_ip, Some(own.ip));
            prop_assert!(addresses.contains(&rule.dst_ip));
        }
        let distinct: BTreeSet<String> = own.rules.iter().map(|rule| format!("{rule:?}")).collect();
        prop_assert_eq!(distinct.len(), own.rules.len());
        for to in &attached {
            for port in PORTS {
                for protocol in [TransportProtocol::Tcp, TransportProtocol::Udp] {
                    let within = |first: u16, last: u16| (first..=last).contains(&port);
                    let allowed = from.allowed.iter().any(|own| {
                        own.item == to.instance.item_id
                            && own.protocol == protocol
                            && within(own.ports.first(), own.ports.last())
                    });
                    let exposed = to.exposed.iter().any(|own| {
                        own.protocol == protocol && within(own.ports.first(), own.ports.last())
                    });
                    let expected = allowed && exposed && from.network != to.network;
                    let actual = opens(plan, from, to, port, protocol);
                    prop_assert_eq!(
                        actual,
                        expected,
                        "{} to {} port {}",
                        from.instance,
                        to.instance,
                        port
                    );
                }
            }
        }
    }
    Ok(())
}

fn names_lead_to_whom_they_should(
    request: &NetworkRequest,
    plan: &NetworkPlan,
) -> Result<(), TestCaseError> {
    for endpoint in &request.endpoints {
        let Some(parameters) = plan.instances.get(&endpoint.instance) else {
            continue;
        };
        let ident = &endpoint.instance;
        let name = format!("{}.{}.{}", ident.instance, ident.subject_id, ident.item_id);
        let hosts = &plan.hosts[&parameters.network_id];
        let id = ident.instance_id().to_string();
        for name in [name, id] {
            prop_assert_eq!(
                hosts.get(&name),
                Some(&BTreeSet::from([v4(parameters.ip)])),
                "{}",
                name
            );
        }
    }
    // In no network can a name be resolved that leads to somebody who must not be called from there.
    for (network, hosts) in &plan.hosts {
        let members = plan
            .instances
            .values()
            .filter(|own| own.network_id == *network);
        let reachable: BTreeSet<Ipv4Addr> = members
            .flat_map(|own| own.rules.iter().map(|rule| rule.dst_ip).chain([own.ip]))
            .map(v4)
            .collect();
        for (name, addresses) in hosts {
            prop_assert!(addresses.is_subset(&reachable), "{} in {}", name, network);
            prop_assert!(!addresses.is_empty());
        }
    }
    Ok(())
}

fn refusals_are_true(plan: &NetworkPlan, settings: &Settings) -> Result<(), TestCaseError> {
    for (ident, error) in &plan.refused {
        match error {
            AttachError::NetworkNameTaken { network } => {
                prop_assert!(networks(plan).contains_key(network) || plan.refused.len() > 1);
            }
            AttachError::NoSubnet { .. } => {
                prop_assert!(
                    settings != &Settings::default() || plan.notes.is_empty(),
                    "{}",
                    ident
                );
            }
            AttachError::NoAddress { network, subnet } => {
                let held = holders(plan)
                    .into_keys()
                    .filter(|(own, _)| own == network)
                    .count();
                let hosts = (1_usize << (32 - subnet.prefix_length())) - 3;
                prop_assert_eq!(held, hosts, "{} is refused in {}", ident, subnet);
            }
            AttachError::NoVlan { .. } => prop_assert!(false, "there are thousands of VLANs"),
        }
    }
    Ok(())
}

/// Who is in both plans has what it had. An owner and a subject share the id `anna`, and take turns in having that network.
fn nothing_changes_for_who_stays(
    before: &NetworkPlan,
    now: &NetworkPlan,
) -> Result<(), TestCaseError> {
    let kept =
        |ident: &InstanceIdent| Some((before.instances.get(ident)?, now.instances.get(ident)?));
    for ident in now.instances.keys() {
        if let Some((was, is)) = kept(ident)
            && was.network_id == is.network_id
            && is.network_id.as_str() != "anna"
        {
            prop_assert_eq!(was.ip, is.ip, "{}", ident);
            prop_assert_eq!(was.subnet, is.subnet, "{}", ident);
        }
    }
    let of = |plan: &NetworkPlan, node: &NodeId, network: &NetworkId| {
        let mut networks = plan.nodes.get(node).into_iter().flatten();
        networks.find(|own| own.network_id == *network).cloned()
    };
    for (node, networks) in &now.nodes {
        for network in networks {
            if let Some(was) = of(before, node, &network.network_id)
                && network.network_id.as_str() != "anna"
            {
                prop_assert_eq!(&was, network);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds_while_instances_come_and_go(
        steps in vec((any_endpoints(), any_foreign()), 1..5),
        settings in any_settings(),
    ) {
        let mut allocations = Allocations::default();
        let mut before: Option<NetworkPlan> = None;
        for (endpoints, nodes) in steps {
            let request = NetworkRequest { endpoints, nodes, settings: settings.clone(), ..NetworkRequest::default() };
            let now = planned(&request, &allocations);
            nothing_is_given_twice(&now)?;
            addresses_are_of_hosts(&now)?;
            everyone_is_attached_or_refused(&request, &now)?;
            rules_are_what_is_allowed(&request, &now)?;
            names_lead_to_whom_they_should(&request, &now)?;
            refusals_are_true(&now, &settings)?;
            if let Some(before) = &before {
                nothing_changes_for_who_stays(before, &now)?;
            }
            allocations = reread(&now.allocations);
            prop_assert_eq!(&allocations, &now.allocations);
            let again = planned(&request, &allocations);
            prop_assert_eq!(&again, &now, "planning again changes nothing");
            before = Some(now);
        }
    }

    #[test]
    fn the_order_of_lists_does_not_matter(endpoints in any_endpoints(), nodes in any_foreign(), settings in any_settings()) {
        let request = NetworkRequest { endpoints, nodes, settings, ..NetworkRequest::default() };
        let mut turned = request.clone();
        turned.endpoints.reverse();
        turned.nodes.reverse();
        for endpoint in &mut turned.endpoints {
            endpoint.allowed.reverse();
            endpoint.exposed.reverse();
        }
        let none = Allocations::default();
        prop_assert_eq!(planned(&request, &none), planned(&turned, &none));
    }

    #[test]
    fn addresses_are_not_passed_on_and_come_back(steps in vec(any_endpoints(), 1..6)) {
        let mut allocations = Allocations::default();
        let mut owners: BTreeMap<(NetworkId, Ipv4Addr), String> = BTreeMap::new();
        let mut last: BTreeMap<(NetworkId, String), Ipv4Addr> = BTreeMap::new();
        for endpoints in steps {
            let request = NetworkRequest { endpoints, ..NetworkRequest::default() };
            let now = planned(&request, &allocations);
            for (key, holders) in holders(&now) {
                let holder = holders[0].clone();
                // Owners and subjects that share an id take turns in having the network of that name.
                if key.0.as_str() == "anna" {
                    continue;
                }
                prop_assert_eq!(owners.entry(key.clone()).or_insert_with(|| holder.clone()), &holder);
                let had = last.insert((key.0, holder.clone()), key.1);
                prop_assert!(had.is_none_or(|had| had == key.1), "{} came back elsewhere", holder);
            }
            allocations = now.allocations;
        }
    }

    #[test]
    fn new_subnets_keep_clear_of_what_nodes_use(endpoints in any_endpoints(), nodes in any_foreign()) {
        let request = NetworkRequest { endpoints, nodes, ..NetworkRequest::default() };
        let now = planned(&request, &Allocations::default());
        let overlap = now.notes.iter().find(|note| matches!(note, Note::SubnetInUse { .. }));
        prop_assert_eq!(overlap, None);
        let used = request.nodes.iter().flat_map(|own| &own.subnets);
        let used: Vec<Block> = used.filter_map(|subnet| subnet.to_string().parse().ok()).collect();
        for (subnet, _) in networks(&now).into_values() {
            let clash = used.iter().find(|own| own.prefix_length() > 0 && own.overlaps(subnet));
            prop_assert_eq!(clash, None, "{}", subnet);
        }
    }

    #[test]
    fn plans_survive_the_wire(endpoints in any_endpoints()) {
        let request = NetworkRequest { endpoints, ..NetworkRequest::default() };
        for parameters in planned(&request, &Allocations::default()).instances.into_values() {
            let wire = wire::NetworkParameters::from(parameters.clone());
            prop_assert_eq!(wire.try_into().ok(), Some(parameters));
        }
    }
}
