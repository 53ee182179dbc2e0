//! Networks, as nodes were given them.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{NetworkId, NodeId};
use muster_api::servicemanager::v5::UpdateNetworkParameters;

use super::UnitState;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NetworkRecord {
    pub(crate) subnet: String,
    pub(crate) vlan: u64,
    /// The address of the bridge of each node that has it.
    pub(crate) nodes: BTreeMap<NodeId, String>,
    /// How many are attached.
    pub(crate) instances: usize,
}

impl UnitState {
    /// From now on the node has exactly these.
    pub(super) fn set_networks(&mut self, node: &NodeId, networks: &[UpdateNetworkParameters]) {
        let mut old = self.networks_of.remove(node).unwrap_or_default();
        let mut new = BTreeSet::new();
        for parameters in networks {
            // What the balancer made is valid; a network without a name could not be shown.
            let Ok(id) = NetworkId::new(&parameters.network_id) else {
                continue;
            };
            old.remove(&id);
            self.change_network(&id, |network| {
                network.subnet.clone_from(&parameters.subnet);
                network.vlan = parameters.vlan_id;
                network.nodes.insert(node.clone(), parameters.ip.clone());
            });
            new.insert(id);
        }
        for id in old {
            self.change_network(&id, |network| drop(network.nodes.remove(node)));
        }
        if !new.is_empty() {
            self.networks_of.insert(node.clone(), new);
        }
    }

    pub(super) fn attach(&mut self, old: Option<&NetworkId>, new: Option<&NetworkId>) {
        if let Some(id) = new {
            self.change_network(id, |network| network.instances += 1);
        }
        if let Some(id) = old {
            self.change_network(id, |network| network.instances -= 1);
        }
    }

    fn change_network(&mut self, id: &NetworkId, change: impl FnOnce(&mut NetworkRecord)) {
        let revision = &mut self.revision;
        let network = self
            .networks
            .get_or_insert(id, revision, NetworkRecord::default);
        let before = network.clone();
        change(network);
        if network.nodes.is_empty() && network.instances == 0 {
            self.networks.remove(id, revision);
        } else if *network != before {
            self.networks.touch(id, revision);
        }
    }
}
