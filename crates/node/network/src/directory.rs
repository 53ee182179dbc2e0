//! The names of a network: who has which, and who is asked for others.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use muster_dns::{Clients, Hosts, NameServer, NetworkSettings as Serving, ServeNamesError};

use crate::node_network::NodeNetwork;
use crate::records::Record;

const DNS_PORT: u16 = 53;
/// More than that would only make a question that nobody answers take longer.
const MAX_SERVERS: usize = 4;

/// Why names are not served.
pub type DirectoryError = ServeNamesError;

/// Tells the name server what is known.
#[derive(Debug)]
pub(crate) struct Directory {
    server: Arc<dyn NameServer>,
    upstreams: Vec<SocketAddr>,
}

impl Directory {
    pub(crate) fn new(server: Arc<dyn NameServer>, upstreams: Vec<SocketAddr>) -> Self {
        Self { server, upstreams }
    }

    /// From now on these are the instances of the network.
    pub(crate) async fn publish(
        &self,
        network: &NodeNetwork,
        instances: &[Record],
    ) -> Result<(), DirectoryError> {
        let serving = serving(network, instances, &self.upstreams);
        let id = network.id.as_str();
        self.server.put_network(id, serving).await?;
        self.server.set_hosts(id, hosts(instances)).await
    }

    pub(crate) async fn withdraw(&self, network: &NodeNetwork) -> Result<(), DirectoryError> {
        self.server.remove_network(network.id.as_str()).await
    }
}

fn hosts(instances: &[Record]) -> Hosts {
    let names = instances.iter().flat_map(|record| {
        let names = record.names.iter().filter_map(|name| name.parse().ok());
        names.map(|name| (name, record.address))
    });
    names.collect()
}

/// Whoever the controller names knows the network's names on other nodes; the node's own servers know the outside.
fn serving(network: &NodeNetwork, instances: &[Record], own: &[SocketAddr]) -> Serving {
    let listen = SocketAddr::new(network.address, DNS_PORT);
    let at_port = |address: &IpAddr| SocketAddr::new(*address, DNS_PORT);
    let named = instances
        .iter()
        .flat_map(|record| record.name_servers.iter().map(at_port));
    let controllers = servers(named, &[listen]);
    let others: Vec<SocketAddr> = controllers.iter().copied().chain([listen]).collect();
    Serving {
        listen,
        clients: Clients::new(network.subnet.address(), network.subnet.prefix_length()),
        zones: network.id.as_str().parse().into_iter().collect(),
        upstreams: servers(own.iter().copied(), &others),
        controllers,
    }
}

/// Each of them once, but for `others`, and not too many.
fn servers(named: impl Iterator<Item = SocketAddr>, others: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut servers: Vec<SocketAddr> = Vec::new();
    for server in named {
        if !others.contains(&server) && !servers.contains(&server) && servers.len() < MAX_SERVERS {
            servers.push(server);
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use muster_api::domain::NetworkId;
    use uuid::Uuid;

    use super::*;

    fn record(last: u8, names: &[&str], servers: &[[u8; 4]]) -> Record {
        Record {
            instance: Uuid::from_u128(last.into()),
            name: String::new(),
            network: NetworkId::new("n").unwrap(),
            address: [10, 1, 0, last].into(),
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            name_servers: servers.iter().map(|it| (*it).into()).collect(),
            conflist: String::new(),
            made: true,
        }
    }

    #[test]
    fn the_controllers_servers_and_the_nodes_are_told_apart_and_the_own_one_is_not_asked() {
        let network = NodeNetwork {
            id: NetworkId::new("n").unwrap(),
            subnet: "10.1.0.0/16".parse().unwrap(),
            address: [10, 1, 0, 1].into(),
            vlan: None,
        };
        let instances = [
            record(2, &["a", "b c", "web"], &[[10, 9, 0, 1], [10, 1, 0, 1]]),
            record(3, &["web"], &[[10, 9, 0, 1], [10, 9, 0, 2]]),
        ];
        let own = ["10.9.0.2:53", "192.0.2.1:53"].map(|it| it.parse().unwrap());
        let serving = serving(&network, &instances, &own);
        let texts = |servers: &[SocketAddr]| {
            let texts = servers.iter().map(ToString::to_string);
            texts.collect::<Vec<_>>()
        };
        assert_eq!(texts(&serving.controllers), ["10.9.0.1:53", "10.9.0.2:53"]);
        assert_eq!(texts(&serving.upstreams), ["192.0.2.1:53"]);
        assert_eq!(serving.zones, ["n".parse().unwrap()]);
        assert_eq!(serving.listen.to_string(), "10.1.0.1:53");
        // A name may be that of several instances; what is no name is left out.
        assert_eq!(hosts(&instances).len(), 2);
    }
}
