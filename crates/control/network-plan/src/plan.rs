//! From placed instances to networks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_api::domain::{InstanceIdent, NetworkId, NetworkParameters, NodeId, Subnet};

use crate::allocations::{Allocations, Exhausted, Holder, Network};
use crate::block::Block;
use crate::names::Names;
use crate::outcome::{AttachError, NetworkPlan, NodeNetwork, Note};
use crate::request::{Endpoint, NetworkKey, NetworkRequest, RequestError};
use crate::rules::{self, Attached, ByItem};

/// Says what the networks of the Unit look like.
///
/// The allocations are those of the last plan that was carried out; the new ones are in the plan.
pub fn plan(
    request: &NetworkRequest,
    allocations: &Allocations,
) -> Result<NetworkPlan, RequestError> {
    let endpoints = sorted_endpoints(request)?;
    let foreign = foreign_subnets(request)?;
    let mut plan = NetworkPlan {
        nodes: foreign
            .keys()
            .map(|node| ((*node).clone(), Vec::new()))
            .collect(),
        instances: BTreeMap::new(),
        hosts: BTreeMap::new(),
        refused: BTreeMap::new(),
        notes: Vec::new(),
        allocations: allocations.clone(),
    };
    let attached = attach(&mut plan, request, &endpoints, &foreign);
    note_overlaps(&mut plan, &foreign);
    connect(&mut plan, request, &attached);
    plan.notes.sort_unstable();
    plan.notes.dedup();
    Ok(plan)
}

fn sorted_endpoints(request: &NetworkRequest) -> Result<Vec<&Endpoint>, RequestError> {
    let mut endpoints: Vec<&Endpoint> = request.endpoints.iter().collect();
    endpoints.sort_unstable_by(|own, other| own.instance.cmp(&other.instance));
    let mut pairs = endpoints.windows(2);
    if let Some(twice) = pairs.find(|pair| pair[0].instance == pair[1].instance) {
        let instance = twice[0].instance.clone();
        return Err(RequestError::DuplicateInstance { instance });
    }
    Ok(endpoints)
}

fn foreign_subnets(
    request: &NetworkRequest,
) -> Result<BTreeMap<&NodeId, Vec<Block>>, RequestError> {
    let mut foreign = BTreeMap::new();
    for used in &request.nodes {
        let blocks = used.subnets.iter().filter_map(Block::of_subnet);
        // The route to everywhere is in nobody's way.
        let blocks = blocks.filter(|block| block.prefix_length() > 0).collect();
        if foreign.insert(&used.node, blocks).is_some() {
            let node = used.node.clone();
            return Err(RequestError::DuplicateNode { node });
        }
    }
    Ok(foreign)
}

/// Gives every endpoint its address, and every node one in the networks of its endpoints.
fn attach<'r>(
    plan: &mut NetworkPlan,
    request: &'r NetworkRequest,
    endpoints: &[&'r Endpoint],
    foreign: &BTreeMap<&NodeId, Vec<Block>>,
) -> Vec<Attached<'r>> {
    let mut by_network: BTreeMap<&NetworkKey, Vec<&'r Endpoint>> = BTreeMap::new();
    for endpoint in endpoints {
        let members = by_network.entry(&endpoint.network).or_default();
        members.push(endpoint);
    }
    let wanted = by_network.iter();
    let wanted = wanted.map(|(key, members)| ((*key).clone(), holders(members)));
    plan.allocations.release(&wanted.collect());
    let used: Vec<Block> = foreign.values().flatten().copied().collect();
    let mut attached = Vec::with_capacity(endpoints.len());
    // Owners come before subjects, so of two that share an id the owner has the network.
    let mut named: BTreeSet<NetworkId> = BTreeSet::new();
    for (key, members) in by_network {
        let network = key.network_id();
        let refusal = match named.insert(network.clone()) {
            false => AttachError::NetworkNameTaken { network },
            true => match plan.allocations.network(key, &request.settings.pool, &used) {
                Ok(allocated) => {
                    let refused = attach_members(
                        allocated,
                        network,
                        &members,
                        &mut plan.nodes,
                        &mut attached,
                    );
                    plan.refused.extend(refused);
                    continue;
                }
                Err(Exhausted::Subnets) => {
                    let subnets = request.settings.pool.size();
                    AttachError::NoSubnet { network, subnets }
                }
                Err(Exhausted::Vlans) => AttachError::NoVlan { network },
            },
        };
        let refused = members.iter();
        plan.refused
            .extend(refused.map(|own| (own.instance.clone(), refusal.clone())));
    }
    plan.allocations.forget(request.settings.remember);
    attached
}

fn holders(members: &[&Endpoint]) -> BTreeSet<Holder> {
    let nodes = members.iter().map(|own| Holder::Node(own.node.clone()));
    let instances = members.iter();
    nodes
        .chain(instances.map(|own| Holder::Instance(own.instance.clone())))
        .collect()
}

/// Addresses for the nodes and instances of one network. Answers whom it could not attach.
fn attach_members<'r>(
    allocated: &mut Network,
    network: NetworkId,
    members: &[&'r Endpoint],
    nodes: &mut BTreeMap<NodeId, Vec<NodeNetwork>>,
    attached: &mut Vec<Attached<'r>>,
) -> Vec<(InstanceIdent, AttachError)> {
    let mut joined: BTreeSet<&NodeId> = members.iter().map(|own| &own.node).collect();
    joined.retain(|node| {
        let Some(ip) = allocated.lease(&Holder::Node((*node).clone())) else {
            return false;
        };
        nodes.entry((*node).clone()).or_default().push(NodeNetwork {
            network_id: network.clone(),
            subnet: Subnet::from(allocated.subnet),
            ip,
            vlan: allocated.vlan,
        });
        true
    });
    let mut refused = Vec::new();
    for endpoint in members {
        let address = match joined.contains(&endpoint.node) {
            true => allocated.lease(&Holder::Instance(endpoint.instance.clone())),
            false => None,
        };
        match address {
            Some(address) => attached.push(Attached { endpoint, address }),
            None => {
                let error = AttachError::NoAddress {
                    network: network.clone(),
                    subnet: allocated.subnet,
                };
                refused.push((endpoint.instance.clone(), error));
            }
        }
    }
    refused
}

/// Tells which nodes use for something else what a network on them has.
fn note_overlaps(plan: &mut NetworkPlan, foreign: &BTreeMap<&NodeId, Vec<Block>>) {
    for (node, networks) in &plan.nodes {
        let used = foreign.get(node).map_or(&[][..], Vec::as_slice);
        for network in networks {
            let Some(subnet) = Block::of_subnet(&network.subnet) else {
                continue;
            };
            let overlapping = used.iter().filter(|other| other.overlaps(subnet));
            plan.notes
                .extend(overlapping.map(|other| Note::SubnetInUse {
                    network: network.network_id.clone(),
                    subnet,
                    node: node.clone(),
                    foreign: *other,
                }));
        }
    }
}

/// Rules and names for all that are attached.
fn connect(plan: &mut NetworkPlan, request: &NetworkRequest, attached: &[Attached<'_>]) {
    let mut by_item = ByItem::new();
    let mut members: BTreeMap<&NetworkKey, Vec<Attached<'_>>> = BTreeMap::new();
    for own in attached {
        let item = &own.endpoint.instance.item_id;
        by_item.entry(item).or_default().push(*own);
        members.entry(&own.endpoint.network).or_default().push(*own);
    }
    for (key, members) in members {
        let network_id = key.network_id();
        let mut callees = BTreeMap::new();
        for member in &members {
            let instance = &member.endpoint.instance;
            let reach = rules::reach(*member, &by_item);
            plan.notes.extend(reach.notes);
            let called = reach.callees.into_iter();
            callees.extend(called.map(|callee| (&callee.endpoint.instance, callee)));
            let Some(subnet) = plan.allocations.subnet_of(key) else {
                continue;
            };
            let parameters = NetworkParameters {
                network_id: network_id.clone(),
                subnet: Subnet::from(subnet),
                ip: IpAddr::V4(member.address),
                dns_servers: request.dns_servers.clone(),
                rules: reach.rules,
            };
            plan.instances.insert(instance.clone(), parameters);
        }
        let callees: Vec<Attached<'_>> = callees.into_values().collect();
        let mut names = Names::new(network_id);
        names.fill(&members, &callees);
        let (network_id, hosts, notes) = names.finish();
        plan.hosts.insert(network_id, hosts);
        plan.notes.extend(notes);
    }
}
