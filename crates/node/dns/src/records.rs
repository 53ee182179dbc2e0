//! Names, addresses, and who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::name::Name;

/// Names change with instances; nobody should remember them for long.
pub const TTL_SECONDS: u32 = 5;
/// As many as all addresses of a `/16` can have by eight names each, and more.
pub const MAX_NAMES: usize = 1 << 20;

/// Names and their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    addresses: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// The first name that was given to an address is the one it has.
    names: BTreeMap<IpAddr, Name>,
}

impl Hosts {
    /// Nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives an address a name. A name may have several addresses, and an address several names: asked for its own, it has the
    /// one it was given first. More than [`MAX_NAMES`] are not taken; the answer says whether this one was.
    pub fn insert(&mut self, name: Name, address: IpAddr) -> bool {
        if self.addresses.len() >= MAX_NAMES && !self.addresses.contains_key(&name) {
            return false;
        }
        self.names.entry(address).or_insert_with(|| name.clone());
        self.addresses.entry(name).or_default().insert(address);
        true
    }

    /// The addresses of a name, if it is known.
    pub fn addresses(&self, name: &Name) -> Option<&BTreeSet<IpAddr>> {
        self.addresses.get(name)
    }

    /// The name of an address, if it is known.
    pub fn name_of(&self, address: IpAddr) -> Option<&Name> {
        self.names.get(&address)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

impl FromIterator<(Name, IpAddr)> for Hosts {
    fn from_iter<T: IntoIterator<Item = (Name, IpAddr)>>(pairs: T) -> Self {
        let mut hosts = Self::new();
        for (name, address) in pairs {
            hosts.insert(name, address);
        }
        hosts
    }
}

/// Some addresses, by prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    address: IpAddr,
    prefix_length: u8,
}

impl Clients {
    /// Everyone whose address begins as this one does. A prefix longer than the address is the address alone.
    pub fn new(address: IpAddr, prefix_length: u8) -> Self {
        Self {
            address,
            prefix_length,
        }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    pub(crate) fn prefix_length(&self) -> u8 {
        self.prefix_length
    }

    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let shift = 32u32.saturating_sub(self.prefix_length.into());
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let shift = 128u32.saturating_sub(self.prefix_length.into());
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_the_name_that_it_was_given_first() {
        let mut hosts = Hosts::new();
        let address = "172.17.0.2".parse().unwrap();
        assert!(hosts.insert(name("first"), address) && hosts.insert(name("second"), address));
        assert_eq!(hosts.name_of(address), Some(&name("first")));
        assert_eq!(hosts.len(), 2);
    }

    #[test]
    fn clients_are_those_of_the_network() {
        let contains = |network: &str, length, address: &str| {
            Clients::new(network.parse().unwrap(), length).contains(address.parse().unwrap())
        };
        assert!(contains("172.17.0.0", 16, "172.17.255.1"));
        assert!(contains("172.17.0.0", 16, "::ffff:172.17.0.9"));
        assert!(!contains("172.17.0.0", 16, "172.18.0.1"));
        assert!(!contains("172.17.0.0", 16, "fd00::1"));
        assert!(contains("0.0.0.0", 0, "203.0.113.1"));
        assert!(contains("fd00::", 64, "fd00::9") && !contains("fd00::", 64, "fd00:0:0:1::9"));
        assert!(!contains("172.17.0.1", 200, "172.17.0.2"));
    }
}
