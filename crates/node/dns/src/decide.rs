//! What to do about a query, from what is known. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::message::{self, Bad, Code, Kind, Query, Record, Transport};
use crate::name::Name;
use crate::records::{Clients, Hosts, TTL_SECONDS};

/// How names are served on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Where to listen: the node's address in the network. It need not exist yet.
    pub listen: SocketAddr,
    /// Who is answered, which is the network; others get nothing.
    pub clients: Clients,
    /// Names below these are the network's own: nobody outside is asked for them.
    pub zones: Vec<Name>,
    /// Who knows the network's names on other nodes. They are asked first, for everything, and told for which network.
    pub controllers: Vec<SocketAddr>,
    /// Who is asked for everything else, in this order.
    pub upstreams: Vec<SocketAddr>,
}

/// Names as one asker may see them.
pub(crate) trait Knowledge {
    fn addresses(&self, name: &Name) -> Option<BTreeSet<IpAddr>>;
    fn name_of(&self, address: IpAddr) -> Option<&Name>;
    /// Whether nobody outside could know more about the name, or about the address that it is the name of.
    fn is_own(&self, name: &Name, reversed: Option<IpAddr>) -> bool;
}

/// The names of one network on one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnNode<'a> {
    pub(crate) settings: &'a NetworkSettings,
    pub(crate) hosts: &'a Hosts,
}

impl Knowledge for OnNode<'_> {
    fn addresses(&self, name: &Name) -> Option<BTreeSet<IpAddr>> {
        self.hosts.addresses(name).cloned()
    }

    fn name_of(&self, address: IpAddr) -> Option<&Name> {
        self.hosts.name_of(address)
    }

    fn is_own(&self, name: &Name, reversed: Option<IpAddr>) -> bool {
        let settings = self.settings;
        settings.zones.iter().any(|zone| name.is_within(zone))
            || reversed.is_some_and(|address| settings.clients.contains(address))
    }
}

/// Who could be asked for what is not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Somebody knows own names that are not known here.
    pub(crate) for_own: bool,
    /// Somebody knows the outside.
    pub(crate) for_others: bool,
    /// What is said of the outside when nobody knows it.
    pub(crate) otherwise: Code,
}

/// Whose name is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm {
    /// Nobody outside may be asked.
    Own,
    Anybodys,
}

/// What to do about a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Answer(Vec<u8>),
    /// Somebody else has to be asked.
    Forward(Realm),
}

/// Reads a packet. An error is what to answer, if anything.
pub(crate) fn read(packet: &[u8]) -> Result<Query<'_>, Option<Vec<u8>>> {
    match Query::parse(packet) {
        Ok(query) if query.is_internet() => Ok(query),
        Ok(query) => Err(Some(query.refuse(Code::Refused))),
        Err(Bad::Ignore) => Err(None),
        Err(Bad::Refuse(code)) => Err(Some(message::refuse(packet, code))),
    }
}

/// Decides from what is known here.
pub(crate) fn decide(
    query: &Query<'_>,
    known: &impl Knowledge,
    elsewhere: Elsewhere,
    transport: Transport,
) -> Decision {
    let answer = |records: &[Record<'_>]| {
        Decision::Answer(query.answer(Code::NoError, records, transport, TTL_SECONDS))
    };
    if let Some(addresses) = known.addresses(&query.name) {
        let wanted = |address: &IpAddr| match query.kind {
            Kind::A => address.is_ipv4(),
            Kind::Aaaa => address.is_ipv6(),
            Kind::Any => true,
            Kind::Ptr | Kind::Other => false,
        };
        let records: Vec<_> = addresses
            .into_iter()
            .filter(wanted)
            .map(Record::Address)
            .collect();
        return answer(&records);
    }
    let reversed = query.name.reversed();
    if let Some(name) = reversed.and_then(|address| known.name_of(address)) {
        return match query.kind {
            Kind::Ptr | Kind::Any => answer(&[Record::Pointer(name)]),
            _ => answer(&[]),
        };
    }
    // Nobody outside knows names without a domain, and nobody outside should hear of them.
    match known.is_own(&query.name, reversed) || query.name.is_single() {
        true if elsewhere.for_own => Decision::Forward(Realm::Own),
        true => Decision::Answer(query.nobody(transport)),
        false if elsewhere.for_own || elsewhere.for_others => Decision::Forward(Realm::Anybodys),
        false => match elsewhere.otherwise {
            Code::NoSuchName => Decision::Answer(query.nobody(transport)),
            code => Decision::Answer(query.refuse(code)),
        },
    }
}

#[cfg(test)]
mod tests;
