//! Names across nodes: from plans of networks to the server that nodes ask.
//!
//! The server has the names of the last plan that was carried out. They are on disk with what the plan gave out, so that they are
//! served as soon as the daemon runs again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{NetworkId, Subnet};
use muster_dns::{Clients, Hosts, Limits, UnitNames, UnitServer, UnitSettings};
use muster_network_plan::{HostTable, NetworkPlan};
use tokio::sync::watch;

/// Another program may have the port, and give it up.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// What can be resolved in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkHosts {
    pub(crate) subnet: Subnet,
    pub(crate) hosts: HostTable,
}

/// What can be resolved in each network.
pub(crate) type UnitHosts = BTreeMap<NetworkId, NetworkHosts>;

/// Takes the names out of a plan.
pub(crate) fn taken_from(plan: &mut NetworkPlan) -> UnitHosts {
    let mut subnets: BTreeMap<&NetworkId, Subnet> = BTreeMap::new();
    for own in plan.nodes.values().flatten() {
        subnets.insert(&own.network_id, own.subnet);
    }
    let hosts = std::mem::take(&mut plan.hosts).into_iter();
    let known = hosts.filter_map(|(network, hosts)| {
        let subnet = *subnets.get(&network)?;
        Some((network, NetworkHosts { subnet, hosts }))
    });
    known.collect()
}

/// The same, as the server needs it.
pub(crate) fn served(networks: &UnitHosts) -> UnitNames {
    let mut names = UnitNames::new();
    for (network, NetworkHosts { subnet, hosts }) in networks {
        let pairs = hosts.iter().filter_map(|(name, addresses)| {
            let name: muster_dns::Name = name.parse().ok()?;
            Some(addresses.iter().map(move |it| (name.clone(), (*it).into())))
        });
        let hosts: Hosts = pairs.flatten().collect();
        let subnet = Clients::new(subnet.address(), subnet.prefix_length());
        names.insert(network.as_str(), subnet, hosts);
    }
    names
}

/// Serves the newest names for ever. An address that cannot be listened on does not keep the daemon from its other work.
pub(crate) async fn serve(settings: UnitSettings, names: watch::Receiver<Arc<UnitNames>>) {
    let listen = settings.listen;
    let mut was_told = false;
    loop {
        match UnitServer::bind(settings.clone(), names.clone(), Limits::default()) {
            Ok(server) => {
                tracing::info!(%listen, "names of instances are served to nodes");
                server.run().await;
            }
            Err(error) if !was_told => {
                was_told = true;
                tracing::warn!(%listen, %error, retry = ?LISTEN_AGAIN,
                    "names of instances cannot be served to nodes: is another name server on this address? dnsIp chooses one");
            }
            Err(_) => {}
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
    use muster_network_plan::{Allocations, Endpoint, NetworkKey, NetworkRequest, plan};
    use proptest::prelude::*;

    use super::*;

    fn endpoint(item: &str, subject: &str, number: u64, node: &str) -> Endpoint {
        let subject = SubjectId::new(subject).expect("an id");
        Endpoint {
            network: NetworkKey::Subject(subject.clone()),
            instance: InstanceIdent {
                item_id: ItemId::new(item).expect("an id"),
                subject_id: subject,
                instance: number,
                item_type: ItemType::Service,
                preinstalled: false,
            },
            node: node.parse().expect("an id"),
            hostname: Some(format!("{item}-host")),
            exposed: Vec::new(),
            allowed: Vec::new(),
        }
    }

    fn planned(endpoints: Vec<Endpoint>, before: &Allocations) -> NetworkPlan {
        let request = NetworkRequest {
            endpoints,
            ..NetworkRequest::default()
        };
        plan(&request, before).expect("a plan")
    }

    #[test]
    fn names_of_all_nodes_are_in_the_zone_of_their_network() {
        let endpoints = vec![
            endpoint("web", "anna", 0, "main"),
            endpoint("web", "anna", 1, "second"),
            endpoint("store", "bert", 0, "second"),
        ];
        let mut plan = planned(endpoints.clone(), &Allocations::default());
        let addresses: Vec<_> = (endpoints.iter())
            .map(|it| plan.instances[&it.instance].ip)
            .collect();
        let hosts = taken_from(&mut plan);
        assert!(plan.hosts.is_empty());
        let networks: Vec<&str> = hosts.keys().map(NetworkId::as_str).collect();
        assert_eq!(networks, ["anna", "bert"]);
        let anna = &hosts[&NetworkId::new("anna").expect("an id")];
        let of = |name: &str| -> Vec<std::net::IpAddr> {
            let found = anna.hosts.get(name).into_iter().flatten();
            found.map(|it| (*it).into()).collect()
        };
        assert_eq!(of("web-host"), addresses[..2]);
        assert_eq!(of("1.anna.web.anna"), addresses[1..2]);
        assert!(of("store-host").is_empty(), "it is in another network");
        assert_eq!(served(&hosts).networks(), 2);
    }

    proptest! {
        /// Whoever stays keeps its names and where they lead, whoever comes and goes beside it; names of identity lead to one.
        #[test]
        fn names_of_identity_are_unique_and_stable(
            steps in prop::collection::vec(prop::collection::btree_set((0u8..4, 0u8..3, 0u64..3, 0u8..3), 0..20), 1..4),
        ) {
            let mut allocations = Allocations::default();
            let mut known: BTreeMap<String, std::net::Ipv4Addr> = BTreeMap::new();
            for step in steps {
                let mut seen = std::collections::BTreeSet::new();
                let endpoints: Vec<Endpoint> = step.into_iter()
                    .filter(|(item, subject, number, _)| seen.insert((*item, *subject, *number)))
                    .map(|(item, subject, number, node)| {
                        endpoint(&format!("i{item}"), &format!("s{subject}"), number, &format!("n{node}"))
                    })
                    .collect();
                let mut plan = planned(endpoints.clone(), &allocations);
                let hosts = taken_from(&mut plan);
                for endpoint in &endpoints {
                    let network = endpoint.network.network_id();
                    let name = format!("{}.{network}", endpoint.instance.instance_id());
                    let found = &hosts[&network].hosts[&name];
                    prop_assert_eq!(found.len(), 1, "{}", &name);
                    let address = *found.first().expect("one");
                    prop_assert_eq!(*known.entry(name).or_insert(address), address);
                }
                allocations = plan.allocations;
            }
        }
    }
}
