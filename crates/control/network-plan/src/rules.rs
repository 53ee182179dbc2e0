//! What an instance may send into other networks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use muster_api::domain::{FirewallRule, ItemId, PortRange, TransportProtocol};
use muster_item::{AllowedConnection, ExposedPort};

use crate::outcome::{Note, Unmet, connection_text};
use crate::request::{Endpoint, NetworkKey};

/// An instance with its address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached<'r> {
    pub(crate) endpoint: &'r Endpoint,
    pub(crate) address: Ipv4Addr,
}

/// All that are attached, by item.
pub(crate) type ByItem<'r> = BTreeMap<&'r ItemId, Vec<Attached<'r>>>;

/// What an instance may reach.
#[derive(Debug, Default)]
pub(crate) struct Reach<'r> {
    pub(crate) rules: Vec<FirewallRule>,
    /// Whom it may call in other networks.
    pub(crate) callees: Vec<Attached<'r>>,
    pub(crate) notes: Vec<Note>,
}

/// The ports that are both allowed and exposed.
fn common(allowed: &AllowedConnection, exposed: &ExposedPort) -> Option<PortRange> {
    if allowed.protocol != exposed.protocol {
        return None;
    }
    let first = allowed.ports.first().max(exposed.ports.first());
    let last = allowed.ports.last().min(exposed.ports.last());
    PortRange::new(first, last).ok()
}

type PortKey = (Ipv4Addr, u8, u16, u16);

fn protocol_key(protocol: TransportProtocol) -> u8 {
    match protocol {
        TransportProtocol::Tcp => 0,
        TransportProtocol::Udp => 1,
        TransportProtocol::Sctp => 2,
    }
}

fn protocol_of(key: u8) -> TransportProtocol {
    match key {
        0 => TransportProtocol::Tcp,
        1 => TransportProtocol::Udp,
        _ => TransportProtocol::Sctp,
    }
}

/// Ranges that touch become one, so that the same permissions are always the same rules.
fn merge(mut ports: Vec<PortKey>) -> Vec<PortKey> {
    ports.sort_unstable();
    let mut merged: Vec<PortKey> = Vec::with_capacity(ports.len());
    for (address, protocol, first, last) in ports {
        match merged.last_mut() {
            Some((at, by, _, end))
                if *at == address && *by == protocol && first <= end.saturating_add(1) =>
            {
                *end = last.max(*end);
            }
            _ => merged.push((address, protocol, first, last)),
        }
    }
    merged
}

/// What `caller` may reach of all that are attached.
pub(crate) fn reach<'r>(caller: Attached<'r>, by_item: &ByItem<'r>) -> Reach<'r> {
    let own: &NetworkKey = &caller.endpoint.network;
    let mut reach = Reach::default();
    let mut ports = Vec::new();
    for allowed in &caller.endpoint.allowed {
        let callees = by_item.get(&allowed.item).map_or(&[][..], Vec::as_slice);
        let mut met = false;
        for callee in callees {
            if callee.endpoint.network == *own {
                met = true;
                continue;
            }
            let exposed = callee.endpoint.exposed.iter();
            let open: Vec<PortRange> = exposed.filter_map(|port| common(allowed, port)).collect();
            if open.is_empty() {
                continue;
            }
            met = true;
            reach.callees.push(*callee);
            let protocol = protocol_key(allowed.protocol);
            let open = open.into_iter();
            ports.extend(open.map(|open| (callee.address, protocol, open.first(), open.last())));
        }
        if !met {
            reach.notes.push(Note::Unmet {
                instance: caller.endpoint.instance.clone(),
                item: allowed.item.clone(),
                connection: connection_text(&allowed.item, allowed.ports, allowed.protocol),
                why: match callees.is_empty() {
                    true => Unmet::NoInstance,
                    false => Unmet::NotExposed,
                },
            });
        }
    }
    let rule = |(address, protocol, first, last): PortKey| {
        Some(FirewallRule {
            dst_ip: IpAddr::V4(address),
            dst_port: PortRange::new(first, last).ok()?,
            proto: protocol_of(protocol),
            src_ip: Some(IpAddr::V4(caller.address)),
        })
    };
    reach.rules = merge(ports).into_iter().filter_map(rule).collect();
    reach
}
