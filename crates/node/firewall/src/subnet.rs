//! Ranges of IPv4 addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use muster_api::domain::Subnet;

use crate::policy::PolicyError;

/// Addresses that share a prefix; the other bits of its address are always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Subnet {
    network: Ipv4Addr,
    prefix_length: u8,
}

impl Ipv4Subnet {
    const fn literal(a: u8, b: u8, c: u8, d: u8, prefix_length: u8) -> Self {
        Self {
            network: Ipv4Addr::new(a, b, c, d),
            prefix_length,
        }
    }

    /// The subnet of an address; `None` when the prefix is longer than an address.
    pub fn new(address: Ipv4Addr, prefix_length: u8) -> Option<Self> {
        let mask = mask(prefix_length)?;
        Some(Self {
            network: Ipv4Addr::from_bits(address.to_bits() & mask),
            prefix_length,
        })
    }

    /// One address.
    pub fn host(address: Ipv4Addr) -> Self {
        Self {
            network: address,
            prefix_length: 32,
        }
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = mask(self.prefix_length).unwrap_or(u32::MAX);
        address.to_bits() & mask == self.network.to_bits()
    }

    /// Whether an address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// The first address.
    pub fn network(&self) -> Ipv4Addr {
        self.network
    }

    /// How many leading bits the addresses share.
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }
}

fn mask(prefix_length: u8) -> Option<u32> {
    match prefix_length {
        0 => Some(0),
        1..=32 => Some(u32::MAX << (32 - u32::from(prefix_length))),
        _ => None,
    }
}

impl TryFrom<Subnet> for Ipv4Subnet {
    type Error = PolicyError;

    fn try_from(subnet: Subnet) -> Result<Self, PolicyError> {
        match subnet.address() {
            IpAddr::V4(address) => Self::new(address, subnet.prefix_length()),
            IpAddr::V6(_) => None,
        }
        .ok_or(PolicyError::SubnetNotIpv4 { subnet })
    }
}

impl FromStr for Ipv4Subnet {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let subnet: Subnet = text
            .parse()
            .map_err(|source| PolicyError::Subnet { source })?;
        Self::try_from(subnet)
    }
}

impl fmt::Display for Ipv4Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_length)
    }
}

/// What is not the outside: private, shared, link-local, loopback and multicast addresses, and broadcasts.
///
/// Traffic with these is neither masqueraded nor counted, and an instance reaches them only by a rule of its own.
pub const LOCAL_NETWORKS: [Ipv4Subnet; 9] = [
    Ipv4Subnet::literal(0, 0, 0, 0, 8),
    Ipv4Subnet::literal(10, 0, 0, 0, 8),
    Ipv4Subnet::literal(100, 64, 0, 0, 10),
    Ipv4Subnet::literal(127, 0, 0, 0, 8),
    Ipv4Subnet::literal(169, 254, 0, 0, 16),
    Ipv4Subnet::literal(172, 16, 0, 0, 12),
    Ipv4Subnet::literal(192, 168, 0, 0, 16),
    // Multicast and, above it, what was never given out, with the broadcast address at its end.
    Ipv4Subnet::literal(224, 0, 0, 0, 4),
    Ipv4Subnet::literal(240, 0, 0, 0, 4),
];

/// Whether an address belongs to [`LOCAL_NETWORKS`].
pub fn is_local(address: Ipv4Addr) -> bool {
    LOCAL_NETWORKS.iter().any(|local| local.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_kept_without_host_bits() {
        let subnet: Ipv4Subnet = "172.17.3.4/16".parse().unwrap();
        assert_eq!(subnet.to_string(), "172.17.0.0/16");
        assert!(subnet.contains(Ipv4Addr::new(172, 17, 255, 255)));
        assert!(!subnet.contains(Ipv4Addr::new(172, 18, 0, 0)));
        assert!("fd00::/64".parse::<Ipv4Subnet>().is_err());
        let all: Ipv4Subnet = "1.2.3.4/0".parse().unwrap();
        assert!(all.contains(Ipv4Addr::BROADCAST));
    }

    #[test]
    fn the_outside_is_what_is_not_local() {
        for local in [
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "255.255.255.255",
        ] {
            assert!(is_local(local.parse().unwrap()), "{local}");
        }
        for outside in ["9.9.9.9", "172.32.0.1", "203.0.113.1", "223.255.255.255"] {
            assert!(!is_local(outside.parse().unwrap()), "{outside}");
        }
    }
}
