//! Where the names of the Unit's instances are served.

use std::net::{IpAddr, SocketAddr};

use muster_api::domain::Subnet;
use muster_config::Problems;
use muster_dns::{Clients, UnitSettings};
use muster_rpc::ListenAddress;

use super::parts::RawNetworks;

const PORT: u16 = 53;
/// Switches the server off.
const OFF: &str = "off";
/// Networks that are not the Internet. Nodes of a Unit are in one of them, as a rule.
const PRIVATE: [(&str, u8); 9] = [
    ("10.0.0.0", 8),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("100.64.0.0", 10),
    ("169.254.0.0", 16),
    ("127.0.0.0", 8),
    ("fc00::", 7),
    ("fe80::", 10),
    ("::1", 128),
];

/// Where names are served, if they are. An address that nodes are listened for on is one that nodes can reach; the loopback
/// they cannot.
pub(super) fn names(
    dns_ip: &str,
    raw: &RawNetworks,
    listen_for_nodes: Option<ListenAddress>,
    problems: &mut Problems<'_>,
) -> Option<Option<UnitSettings>> {
    let clients = clients(raw, problems);
    let upstreams = upstreams(raw, problems);
    let address = match dns_ip {
        OFF => None,
        "" => {
            let known = listen_for_nodes.map(|it| it.0.ip());
            known.filter(|it| !it.is_unspecified() && !it.is_loopback())
        }
        text => match text.parse::<IpAddr>() {
            Ok(address) if !address.is_unspecified() => Some(address),
            _ => {
                problems.report(
                    "dnsIp",
                    "must be the address of this machine that nodes reach, or off",
                );
                return None;
            }
        },
    };
    Some(address.map(|address| UnitSettings {
        listen: SocketAddr::new(address, PORT),
        clients,
        upstreams,
    }))
}

fn clients(raw: &RawNetworks, problems: &mut Problems<'_>) -> Vec<Clients> {
    if raw.dns_clients.is_empty() {
        let private = PRIVATE.iter().filter_map(|(address, length)| {
            let address = address.parse().ok()?;
            Some(Clients::new(address, *length))
        });
        return private.collect();
    }
    let mut clients = Vec::new();
    for (index, text) in raw.dns_clients.iter().enumerate() {
        match text.parse::<Subnet>() {
            Ok(subnet) => clients.push(Clients::new(subnet.address(), subnet.prefix_length())),
            Err(error) => problems.report(&format!("networks.dnsClients[{index}]"), error),
        }
    }
    clients
}

fn upstreams(raw: &RawNetworks, problems: &mut Problems<'_>) -> Vec<SocketAddr> {
    let mut upstreams = Vec::new();
    for (index, text) in raw.dns_forwarders.iter().enumerate() {
        match text.parse::<IpAddr>() {
            Ok(address) => upstreams.push(SocketAddr::new(address, PORT)),
            Err(error) => problems.report(&format!("networks.dnsForwarders[{index}]"), error),
        }
    }
    upstreams
}
