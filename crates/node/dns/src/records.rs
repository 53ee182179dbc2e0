//! What a network's names mean, and what to do about a query.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::message::{self, Bad, Code, Kind, Query, Record, Transport};
use crate::name::Name;

/// Names change with instances; nobody should remember them for long.
pub const TTL_SECONDS: u32 = 5;
/// More names than instances have on any node.
pub const MAX_NAMES: usize = 100_000;

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

/// How names are served on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Where to listen: the node's address in the network. It need not exist yet.
    pub listen: SocketAddr,
    /// Who is answered; others get nothing.
    pub clients: Clients,
    /// Names below these that nobody has do not exist; others are asked for elsewhere.
    pub zones: Vec<Name>,
    /// Who is asked for everything else, in this order. None: everything else does not exist.
    pub upstreams: Vec<SocketAddr>,
}

/// What to do about a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision<'a> {
    Answer(Vec<u8>),
    /// Somebody else has to be asked.
    Forward(Query<'a>),
    Ignore,
}

/// Decides from what is known here.
pub(crate) fn decide<'a>(
    settings: &NetworkSettings,
    hosts: &Hosts,
    packet: &'a [u8],
    transport: Transport,
) -> Decision<'a> {
    let query = match Query::parse(packet) {
        Ok(query) => query,
        Err(Bad::Ignore) => return Decision::Ignore,
        Err(Bad::Refuse(code)) => return Decision::Answer(message::refuse(packet, code)),
    };
    if !query.is_internet() {
        return Decision::Answer(query.refuse(Code::Refused));
    }
    let answer = |records: &[Record<'_>]| {
        Decision::Answer(query.answer(Code::NoError, records, transport, TTL_SECONDS))
    };
    if let Some(addresses) = hosts.addresses.get(&query.name) {
        let wanted = |address: &&IpAddr| match query.kind {
            Kind::A => address.is_ipv4(),
            Kind::Aaaa => address.is_ipv6(),
            Kind::Any => true,
            Kind::Ptr | Kind::Other => false,
        };
        let records: Vec<_> = addresses
            .iter()
            .filter(wanted)
            .copied()
            .map(Record::Address)
            .collect();
        return answer(&records);
    }
    let reversed = query.name.reversed();
    if let Some(name) = reversed.and_then(|address| hosts.names.get(&address)) {
        return match query.kind {
            Kind::Ptr | Kind::Any => answer(&[Record::Pointer(name)]),
            _ => answer(&[]),
        };
    }
    let is_ours = settings.zones.iter().any(|zone| query.name.is_within(zone))
        || reversed.is_some_and(|address| settings.clients.contains(address))
        // Nobody outside knows names without a domain, and nobody outside should hear of them.
        || query.name.is_single();
    if is_ours || settings.upstreams.is_empty() {
        return Decision::Answer(query.answer(Code::NoSuchName, &[], transport, TTL_SECONDS));
    }
    Decision::Forward(query)
}

#[cfg(test)]
mod tests;
