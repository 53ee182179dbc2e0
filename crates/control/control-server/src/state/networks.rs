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

impl NetworkRecord {
    /// The node has it with these parameters. Whether that is new.
    fn give(&mut self, node: &NodeId, parameters: &UpdateNetworkParameters) -> bool {
        let known = self.nodes.get(node).is_some_and(|ip| *ip == parameters.ip);
        if known && self.subnet == parameters.subnet && self.vlan == parameters.vlan_id {
            return false;
        }
        self.subnet.clone_from(&parameters.subnet);
        self.vlan = parameters.vlan_id;
        self.nodes.insert(node.clone(), parameters.ip.clone());
        true
    }
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
            self.change_network(&id, |network| network.give(node, parameters));
            new.insert(id);
        }
        for id in old {
            self.change_network(&id, |network| network.nodes.remove(node).is_some());
        }
        if !new.is_empty() {
            self.networks_of.insert(node.clone(), new);
        }
    }

    pub(super) fn attach(&mut self, old: Option<&NetworkId>, new: Option<&NetworkId>) {
        if let Some(id) = new {
            self.change_network(id, |network| {
                network.instances += 1;
                true
            });
        }
        if let Some(id) = old {
            self.change_network(id, |network| {
                network.instances -= 1;
                true
            });
        }
    }

    /// `change` says whether there is anything new.
    fn change_network(&mut self, id: &NetworkId, change: impl FnOnce(&mut NetworkRecord) -> bool) {
        let revision = &mut self.revision;
        let network = self
            .networks
            .get_or_insert(id, revision, NetworkRecord::default);
        let changed = change(network);
        if network.nodes.is_empty() && network.instances == 0 {
            self.networks.remove(id, revision);
        } else if changed {
            self.networks.touch(id, revision);
        }
    }
}
