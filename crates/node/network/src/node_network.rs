//! A network as this node takes part in it.

use std::net::IpAddr;

use muster_api::domain::{NetworkId, Subnet};
use muster_api::servicemanager::v5 as wire;
use sha2::{Digest as _, Sha256};

use crate::settings::{LinkName, NetworkSettings};

/// VLAN ids are twelve bits, and the highest one is reserved.
const MAX_VLAN: u64 = 4094;

/// A network as this node takes part in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNetwork {
    /// Which network.
    pub id: NetworkId,
    /// Its addresses.
    pub subnet: Subnet,
    /// The node's own address in it, on the bridge.
    pub address: IpAddr,
    /// Its VLAN between nodes, if it has one.
    pub vlan: Option<u16>,
}

/// Why a network of the controller's list cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network {network:?}: {field} {value:?} is not {expected}")]
pub struct InvalidNetwork {
    /// Its id as it came, shortened.
    pub network: String,
    /// What is wrong.
    pub field: &'static str,
    /// As it came, shortened.
    pub value: String,
    /// What would be right.
    pub expected: &'static str,
}

impl TryFrom<&wire::UpdateNetworkParameters> for NodeNetwork {
    type Error = InvalidNetwork;

    fn try_from(wire: &wire::UpdateNetworkParameters) -> Result<Self, InvalidNetwork> {
        let short = |text: &str| text.chars().take(64).collect::<String>();
        let invalid = |field, value: &str, expected| InvalidNetwork {
            network: short(&wire.network_id),
            field,
            value: short(value),
            expected,
        };
        let id = NetworkId::new(&wire.network_id)
            .map_err(|_| invalid("network_id", &wire.network_id, "an id"))?;
        let subnet: Subnet = (wire.subnet.parse())
            .map_err(|_| invalid("subnet", &wire.subnet, "address/prefix length"))?;
        let address: IpAddr =
            (wire.ip.parse()).map_err(|_| invalid("ip", &wire.ip, "an address"))?;
        if !contains(subnet, address) {
            return Err(invalid("ip", &wire.ip, "an address of the subnet"));
        }
        let vlan = match wire.vlan_id {
            0 => None,
            id @ 1..=MAX_VLAN => u16::try_from(id).ok(),
            id => {
                let text = id.to_string();
                return Err(invalid("vlan_id", &text, "0 or a number below 4095"));
            }
        };
        Ok(Self {
            id,
            subnet,
            address,
            vlan,
        })
    }
}

/// How a network goes on to other nodes.
///
/// The uplink is no port of the bridge: the node stands between the two, so that its rules see all traffic, and answers on
/// either side for what is on the other. On the uplink it does so for its own instances only, since only they have routes to
/// the bridge; other nodes may as well have a plain bridge there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Uplink {
    /// Not at all.
    None,
    /// By a tagged sub-link of this one.
    Vlan {
        /// The link below.
        parent: LinkName,
        /// The tag.
        tag: u16,
    },
    /// By a link of its own.
    Whole(LinkName),
}

impl NodeNetwork {
    pub(crate) fn bridge(&self) -> LinkName {
        bridge_name(&self.id)
    }

    /// `Err` when the network has a VLAN and the node no link for it.
    pub(crate) fn uplink(&self, settings: &NetworkSettings) -> Result<Uplink, NoUplink> {
        if let Some(link) = settings.untagged_uplinks.get(&self.id) {
            return Ok(Uplink::Whole(link.clone()));
        }
        match (self.vlan, &settings.uplink) {
            (None, _) => Ok(Uplink::None),
            (Some(tag), Some(parent)) => Ok(Uplink::Vlan {
                parent: parent.clone(),
                tag,
            }),
            (Some(tag), None) => Err(NoUplink {
                network: self.id.clone(),
                tag,
            }),
        }
    }
}

/// A network has a VLAN, and no link is configured that could carry it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "network {network} has VLAN {tag}, and this node's configuration names no uplink for VLANs"
)]
pub struct NoUplink {
    /// Which network.
    pub network: NetworkId,
    /// Its tag.
    pub tag: u16,
}

/// Whether the subnet has this address.
pub(crate) fn contains(subnet: Subnet, address: IpAddr) -> bool {
    let length = u32::from(subnet.prefix_length());
    match (subnet.address(), address) {
        (IpAddr::V4(net), IpAddr::V4(it)) => {
            let differ = net.to_bits() ^ it.to_bits();
            length == 0 || differ >> (32 - length) == 0
        }
        (IpAddr::V6(net), IpAddr::V6(it)) => {
            let differ = net.to_bits() ^ it.to_bits();
            length == 0 || differ >> (128 - length) == 0
        }
        _ => false,
    }
}

/// Begins the names of links that are Muster's: nothing else is ever changed or removed.
pub(crate) const BRIDGE_PREFIX: &str = "mbr";
/// Begins the names of tagged sub-links.
pub(crate) const VLAN_PREFIX: &str = "mvl";

/// The bridge of a network: ids are longer than names of links may be.
pub(crate) fn bridge_name(id: &NetworkId) -> LinkName {
    derived(BRIDGE_PREFIX, id)
}

/// The tagged sub-link of a network.
pub(crate) fn vlan_name(id: &NetworkId) -> LinkName {
    derived(VLAN_PREFIX, id)
}

fn derived(prefix: &str, id: &NetworkId) -> LinkName {
    let digest = Sha256::digest(id.as_str());
    let name = format!("{prefix}{}", hex::encode(&digest[..6]));
    LinkName::new(&name).expect("three letters and twelve digits are a link name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(ip: &str, vlan_id: u64) -> wire::UpdateNetworkParameters {
        wire::UpdateNetworkParameters {
            network_id: "net-1".into(),
            subnet: "172.17.0.0/16".into(),
            ip: ip.into(),
            vlan_id,
        }
    }

    #[test]
    fn a_network_comes_off_the_wire_or_says_what_is_wrong() {
        let network = NodeNetwork::try_from(&wire("172.17.0.1", 7)).unwrap();
        assert_eq!(network.vlan, Some(7));
        assert_eq!(
            NodeNetwork::try_from(&wire("172.17.0.1", 0)).unwrap().vlan,
            None
        );
        let says = |wire| NodeNetwork::try_from(&wire).unwrap_err().to_string();
        assert_eq!(
            says(wire("172.18.0.1", 0)),
            "network \"net-1\": ip \"172.18.0.1\" is not an address of the subnet"
        );
        assert_eq!(
            says(wire("172.17.0.1", 4095)),
            "network \"net-1\": vlan_id \"4095\" is not 0 or a number below 4095"
        );
        assert_eq!(
            says(wire("here", 0)),
            "network \"net-1\": ip \"here\" is not an address"
        );
    }

    #[test]
    fn names_of_links_are_short_stable_and_apart() {
        let (one, two) = (NetworkId::new("a").unwrap(), NetworkId::new("b").unwrap());
        assert_eq!(bridge_name(&one).as_str(), "mbrca978112ca1b");
        assert_ne!(bridge_name(&one), bridge_name(&two));
        assert_ne!(bridge_name(&one), vlan_name(&one));
    }

    #[test]
    fn a_vlan_needs_a_configured_uplink() {
        let network = NodeNetwork::try_from(&wire("172.17.0.1", 7)).unwrap();
        let mut settings = NetworkSettings::new("/bin", "/run");
        let refused = network.uplink(&settings).unwrap_err().to_string();
        assert!(refused.contains("net-1 has VLAN 7"), "{refused}");
        settings.uplink = Some(LinkName::new("eth1").unwrap());
        assert!(matches!(
            network.uplink(&settings),
            Ok(Uplink::Vlan { tag: 7, .. })
        ));
        settings
            .untagged_uplinks
            .insert(network.id.clone(), LinkName::new("eth2").unwrap());
        assert!(matches!(network.uplink(&settings), Ok(Uplink::Whole(_))));
    }

    #[test]
    fn a_subnet_has_its_own_addresses_only() {
        let has = |subnet: &str, address: &str| {
            contains(subnet.parse().unwrap(), address.parse().unwrap())
        };
        assert!(has("10.1.2.0/24", "10.1.2.255") && !has("10.1.2.0/24", "10.1.3.0"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && has("10.0.0.1/32", "10.0.0.1"));
        assert!(has("fd00::/64", "fd00::1") && !has("fd00::/64", "fd00:0:0:1::"));
        assert!(!has("10.0.0.0/8", "::1"));
    }
}
