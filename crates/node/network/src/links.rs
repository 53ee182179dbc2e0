//! Which links, addresses and routes a network needs, and what has to be done to what is there. Pure; [`crate::netlink`]
//! carries it out.
//!
//! ```text
//! without an uplink          with one
//!   bridge: node/prefix        bridge: node/32, a route to each instance
//!   instances: ports           instances: ports
//!                              uplink: node/32, a route to the whole subnet
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_api::domain::Subnet;

use crate::node_network::{BRIDGE_PREFIX, NodeNetwork, Uplink, VLAN_PREFIX, contains, vlan_name};
use crate::settings::{LinkName, MAX_LINK_NAME};

/// What a link is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Bridge,
    Vlan {
        /// The index of the link below.
        parent: u32,
        tag: u16,
    },
    Other,
}

/// A link as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) kind: LinkKind,
    pub(crate) up: bool,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// Those of Muster's own that lead out by it.
    pub(crate) routes: BTreeSet<Destination>,
}

/// Where a route leads to.
pub(crate) type Destination = (IpAddr, u8);

/// All links of the node, by their names.
pub(crate) type Links = BTreeMap<String, Link>;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkStep {
    MakeBridge(LinkName),
    MakeVlan {
        name: LinkName,
        parent: LinkName,
        tag: u16,
    },
    AddAddress(LinkName, IpAddr, u8),
    RemoveAddress(LinkName, IpAddr, u8),
    SetUp(LinkName),
    AddRoute {
        link: LinkName,
        to: Destination,
        /// The node's own address in the network.
        from: IpAddr,
    },
    RemoveRoute {
        link: LinkName,
        to: Destination,
    },
    Remove(LinkName),
}

/// Why what a network needs cannot be made of what is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkConflict {
    /// The uplink is not there.
    #[error("this node has no link {link}, which the network's uplink is")]
    NoSuchLink {
        /// Its name.
        link: LinkName,
    },
    /// Something else has the bridge's name.
    #[error("link {link} is there and no bridge")]
    NotABridge {
        /// Its name.
        link: LinkName,
    },
}

/// What a network shall be like.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    pub(crate) network: &'a NodeNetwork,
    pub(crate) uplink: &'a Uplink,
    /// Addresses of its instances on this node.
    pub(crate) instances: &'a BTreeSet<IpAddr>,
}

/// What makes the network's links right. Nothing, when they are.
pub(crate) fn steps_for(wanted: &Wanted<'_>, links: &Links) -> Result<Vec<LinkStep>, LinkConflict> {
    let bridge = wanted.network.bridge();
    let there = links.get(bridge.as_str());
    if there.is_some_and(|it| it.kind != LinkKind::Bridge) {
        return Err(LinkConflict::NotABridge { link: bridge });
    }
    let uplink = uplink_name(wanted, links)?;
    let mut steps = Vec::new();
    if there.is_none() {
        steps.push(LinkStep::MakeBridge(bridge.clone()));
    }
    vlan_steps(wanted, links, &mut steps);
    address_steps(wanted, &bridge, uplink.as_ref(), links, &mut steps);
    for link in [Some(&bridge), uplink.as_ref()].into_iter().flatten() {
        let is_new = steps.iter().any(|it| makes(it, link));
        if is_new || !links.get(link.as_str()).is_some_and(|it| it.up) {
            steps.push(LinkStep::SetUp(link.clone()));
        }
    }
    route_steps(wanted, &bridge, uplink.as_ref(), links, &mut steps);
    Ok(steps)
}

fn makes(step: &LinkStep, link: &LinkName) -> bool {
    match step {
        LinkStep::MakeBridge(name) | LinkStep::MakeVlan { name, .. } => name == link,
        _ => false,
    }
}

fn uplink_name(wanted: &Wanted<'_>, links: &Links) -> Result<Option<LinkName>, LinkConflict> {
    let (below, name) = match wanted.uplink {
        Uplink::None => return Ok(None),
        Uplink::Whole(name) => (name, name.clone()),
        Uplink::Vlan { parent, .. } => (parent, vlan_name(&wanted.network.id)),
    };
    if !links.contains_key(below.as_str()) {
        return Err(LinkConflict::NoSuchLink {
            link: below.clone(),
        });
    }
    Ok(Some(name))
}

/// Makes the tagged link, makes it anew when it is another one than wanted, or removes it.
fn vlan_steps(wanted: &Wanted<'_>, links: &Links, steps: &mut Vec<LinkStep>) {
    let name = vlan_name(&wanted.network.id);
    let found = links.get(name.as_str());
    let Uplink::Vlan { parent, tag } = wanted.uplink else {
        steps.extend(found.map(|_| LinkStep::Remove(name)));
        return;
    };
    let right = links.get(parent.as_str()).map(|it| LinkKind::Vlan {
        parent: it.index,
        tag: *tag,
    });
    if found.map(|it| it.kind) == right {
        return;
    }
    steps.extend(found.map(|_| LinkStep::Remove(name.clone())));
    steps.push(LinkStep::MakeVlan {
        name,
        parent: parent.clone(),
        tag: *tag,
    });
}

/// Links that will still be there after these steps.
fn staying<'a>(links: &'a Links, steps: &[LinkStep]) -> Vec<(LinkName, &'a Link)> {
    let goes = |name: &LinkName| {
        let removes = |step: &LinkStep| matches!(step, LinkStep::Remove(it) if it == name);
        steps.iter().any(removes)
    };
    let named = links
        .iter()
        .filter_map(|(name, link)| Some((LinkName::new(name).ok()?, link)));
    named.filter(|(name, _)| !goes(name)).collect()
}

fn address_steps(
    wanted: &Wanted<'_>,
    bridge: &LinkName,
    uplink: Option<&LinkName>,
    links: &Links,
    steps: &mut Vec<LinkStep>,
) {
    let network = wanted.network;
    let own = (network.address, host_length(network.address));
    let of_bridge = match uplink {
        Some(_) => own,
        None => (network.address, network.subnet.prefix_length()),
    };
    for (name, link) in staying(links, steps) {
        let expected = if name == *bridge {
            Some(of_bridge)
        } else {
            uplink.filter(|it| **it == name).map(|_| own)
        };
        let is_ours = name == *bridge || name == vlan_name(&network.id);
        let stale = link
            .addresses
            .iter()
            .filter(|it| Some(**it) != expected && (**it == own || is_ours && !is_kernels(it.0)));
        steps.extend(
            stale.map(|(address, length)| LinkStep::RemoveAddress(name.clone(), *address, *length)),
        );
    }
    let pairs = [(Some(bridge), of_bridge), (uplink, own)];
    for (link, (address, length)) in pairs.into_iter().filter_map(|(link, it)| Some((link?, it))) {
        let found = links
            .get(link.as_str())
            .filter(|_| !steps.iter().any(|it| makes(it, link)));
        if !found.is_some_and(|it| it.addresses.contains(&(address, length))) {
            steps.push(LinkStep::AddAddress(link.clone(), address, length));
        }
    }
}

fn route_steps(
    wanted: &Wanted<'_>,
    bridge: &LinkName,
    uplink: Option<&LinkName>,
    links: &Links,
    steps: &mut Vec<LinkStep>,
) {
    let network = wanted.network;
    let mut routes: Vec<(&LinkName, Destination)> = Vec::new();
    if let Some(uplink) = uplink {
        routes.push((uplink, whole(network.subnet)));
        let instances = wanted.instances.iter();
        routes.extend(instances.map(|it| (bridge, (*it, host_length(*it)))));
    }
    for (link, to) in routes_into(network, &staying(links, steps)) {
        if !routes.contains(&(&link, to)) {
            steps.push(LinkStep::RemoveRoute { link, to });
        }
    }
    for (link, to) in routes {
        let found = links
            .get(link.as_str())
            .filter(|_| !steps.iter().any(|it| makes(it, link)));
        if !found.is_some_and(|it| it.routes.contains(&to)) {
            steps.push(LinkStep::AddRoute {
                link: link.clone(),
                to,
                from: network.address,
            });
        }
    }
}

/// Routes of ours that lead into the network's subnet.
fn routes_into(network: &NodeNetwork, links: &[(LinkName, &Link)]) -> Vec<(LinkName, Destination)> {
    let (subnet, length) = (network.subnet, network.subnet.prefix_length());
    let within = move |to: &Destination| contains(subnet, to.0) && to.1 >= length;
    let routes = links.iter().flat_map(|(name, link)| {
        let routes = link.routes.iter().copied().filter(within);
        routes.map(move |to| (name.clone(), to))
    });
    routes.collect()
}

/// What takes all of a network away: with a link go its addresses and routes.
pub(crate) fn steps_to_remove(network: &NodeNetwork, links: &Links) -> Vec<LinkStep> {
    let own = (network.address, host_length(network.address));
    let of_its_own = [vlan_name(&network.id), network.bridge()];
    let there = of_its_own
        .into_iter()
        .filter(|name| links.contains_key(name.as_str()));
    let mut steps: Vec<LinkStep> = there.map(LinkStep::Remove).collect();
    let others = staying(links, &steps);
    let routes = routes_into(network, &others).into_iter();
    steps.extend(routes.map(|(link, to)| LinkStep::RemoveRoute { link, to }));
    let had = others
        .into_iter()
        .filter(|(_, link)| link.addresses.contains(&own));
    steps.extend(had.map(|(name, _)| LinkStep::RemoveAddress(name, own.0, own.1)));
    steps
}

/// Links with names of ours that belong to none of these networks.
pub(crate) fn strays<'a>(
    networks: impl IntoIterator<Item = &'a NodeNetwork>,
    links: &Links,
) -> Vec<LinkName> {
    let known: Vec<LinkName> = (networks.into_iter())
        .flat_map(|network| [network.bridge(), vlan_name(&network.id)])
        .collect();
    let ours = links.iter().filter(|(name, link)| match link.kind {
        LinkKind::Bridge => is_derived(name, BRIDGE_PREFIX),
        LinkKind::Vlan { .. } => is_derived(name, VLAN_PREFIX),
        LinkKind::Other => false,
    });
    let names = ours.filter_map(|(name, _)| LinkName::new(name).ok());
    names.filter(|name| !known.contains(name)).collect()
}

/// Settings of the kernel that a network needs, below `/proc/sys/net`.
pub(crate) fn settings_for(network: &NodeNetwork, uplink: &Uplink) -> Vec<(String, &'static str)> {
    let bridge = network.bridge();
    let mut settings = vec![
        ("ipv4/ip_forward".to_owned(), "1"),
        // Rules are about IPv4; a bridge without the other one has no way around them.
        (format!("ipv6/conf/{bridge}/disable_ipv6"), "1"),
    ];
    let uplink = match uplink {
        Uplink::None => return settings,
        Uplink::Whole(link) => link.clone(),
        Uplink::Vlan { .. } => vlan_name(&network.id),
    };
    for link in [&bridge, &uplink] {
        settings.push((format!("ipv4/conf/{link}/proxy_arp"), "1"));
        settings.push((format!("ipv4/neigh/{link}/proxy_delay"), "0"));
    }
    settings.push((format!("ipv4/conf/{uplink}/forwarding"), "1"));
    settings
}

fn is_derived(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix);
    let hexadecimal = |it: &str| {
        it.bytes()
            .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    };
    name.len() == MAX_LINK_NAME && digits.is_some_and(hexadecimal)
}

/// The subnet as a destination: without the bits of a host.
fn whole(subnet: Subnet) -> Destination {
    let length = subnet.prefix_length();
    let address = match subnet.address() {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    };
    (address, length)
}

fn host_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Addresses that the kernel gives by itself.
fn is_kernels(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
