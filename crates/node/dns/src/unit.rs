//! The names of all networks of a Unit, for servers of nodes that ask on behalf of theirs.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::watch;

use crate::decide::Knowledge;
use crate::name::Name;
use crate::records::{Clients, Hosts};
use crate::server::{Limits, Serve, Server};

/// How the names of a Unit are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSettings {
    /// Where to listen. The address need not exist yet.
    pub listen: SocketAddr,
    /// Who is answered; others get nothing.
    pub clients: Vec<Clients>,
    /// Who is asked for what is not the Unit's. None: it is refused, and whoever asks turns to somebody else.
    pub upstreams: Vec<SocketAddr>,
}

/// The names of every network, as a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitNames {
    networks: Vec<NetworkNames>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkNames {
    /// The network's id, where it is one for names.
    zone: Option<Name>,
    subnet: Clients,
    hosts: Hosts,
}

impl UnitNames {
    /// No network.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what can be resolved in a network: names of its own instances, and of others that they may call. Subnets of networks
    /// do not overlap.
    pub fn insert(&mut self, network: &str, subnet: Clients, hosts: Hosts) {
        self.networks.push(NetworkNames {
            zone: network.parse().ok(),
            subnet,
            hosts,
        });
    }

    /// How many networks there are.
    pub fn networks(&self) -> usize {
        self.networks.len()
    }

    fn network_of(&self, address: IpAddr) -> Option<&NetworkNames> {
        let mut networks = self.networks.iter();
        networks.find(|network| network.subnet.contains(address))
    }

    /// What a question from `source`, asked for `asker` as it says, is answered from.
    ///
    /// A source that is in a network itself speaks for nobody else.
    pub(crate) fn seen_by(&self, source: IpAddr, asker: Option<IpAddr>) -> SeenBy<'_> {
        let own = self.network_of(source);
        let network = own.or_else(|| self.network_of(asker?));
        SeenBy {
            names: self,
            network,
        }
    }
}

/// The names that somebody may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenBy<'a> {
    names: &'a UnitNames,
    /// The asker's network, if that can be told.
    network: Option<&'a NetworkNames>,
}

impl NetworkNames {
    /// The addresses that a name has among the network's own instances.
    fn own_addresses(&self, name: &Name) -> BTreeSet<IpAddr> {
        let addresses = self.hosts.addresses(name).into_iter().flatten().copied();
        addresses.filter(|it| self.subnet.contains(*it)).collect()
    }
}

impl Knowledge for SeenBy<'_> {
    /// Whoever is in no network that is known is told names that have one meaning in the whole Unit.
    fn addresses(&self, name: &Name) -> Option<BTreeSet<IpAddr>> {
        if let Some(network) = self.network {
            return network.hosts.addresses(name).cloned();
        }
        let networks = self.names.networks.iter();
        let mut found = networks
            .map(|network| network.own_addresses(name))
            .filter(|addresses| !addresses.is_empty());
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    fn name_of(&self, address: IpAddr) -> Option<&Name> {
        let network = self.network.or_else(|| self.names.network_of(address))?;
        network.hosts.name_of(address)
    }

    fn is_own(&self, name: &Name, reversed: Option<IpAddr>) -> bool {
        let mut zones = self.names.networks.iter().filter_map(|it| it.zone.as_ref());
        zones.any(|zone| name.is_within(zone))
            || reversed.is_some_and(|address| self.names.network_of(address).is_some())
    }
}

/// Serves the names of a Unit.
#[derive(Debug)]
pub struct UnitServer(Server);

impl UnitServer {
    /// Listens. Names are taken from the newest snapshot with each question.
    pub fn bind(
        settings: UnitSettings,
        names: watch::Receiver<Arc<UnitNames>>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listen = settings.listen;
        Server::bind(listen, Serve::Unit { settings, names }, limits).map(Self)
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.address()
    }

    /// Never ends; dropping it ends everything that it started.
    pub async fn run(self) {
        self.0.run().await;
    }
}

#[cfg(test)]
mod tests;
