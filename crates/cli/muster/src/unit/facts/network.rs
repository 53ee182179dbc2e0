//! A network between instances.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_control_api::v1;
use serde::Serialize;

use super::{Described, Listed};
use crate::text::shown;

/// A network between instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkFacts {
    pub(crate) id: String,
    pub(crate) subnet: String,
    pub(crate) vlan: u64,
    /// The address of the bridge, by node.
    pub(crate) nodes: BTreeMap<String, String>,
    pub(crate) instances: u64,
}

impl From<v1::Network> for NetworkFacts {
    fn from(network: v1::Network) -> Self {
        Self {
            id: network.network_id,
            subnet: network.subnet,
            vlan: network.vlan_id,
            nodes: network.nodes,
            instances: network.instances,
        }
    }
}

impl Listed for NetworkFacts {
    const KIND: &'static str = "network";
    const COLUMNS: &'static [&'static str] = &["NETWORK", "SUBNET", "VLAN", "NODES", "INSTANCES"];
    const FURTHER: &'static [&'static str] = &["BRIDGES"];

    fn key(&self) -> String {
        self.id.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            shown(&self.id),
            shown(&self.subnet),
            self.vlan.to_string(),
            self.nodes.len().to_string(),
            self.instances.to_string(),
        ]
    }

    fn further(&self) -> Vec<String> {
        let bridge = |(node, address): (&String, &String)| format!("{node}={address}");
        let bridges: Vec<String> = self.nodes.iter().map(bridge).collect();
        vec![shown(&bridges.join(","))]
    }
}

impl Described for NetworkFacts {
    fn facts(&self, _: Timestamp) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("Network", shown(&self.id)),
            ("Subnet", shown(&self.subnet)),
            ("VLAN", self.vlan.to_string()),
        ];
        for (node, address) in &self.nodes {
            facts.push(("Bridge", shown(&format!("{address} on {node}"))));
        }
        facts
    }
}
