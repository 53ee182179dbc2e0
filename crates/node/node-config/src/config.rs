//! What a node is told about itself.

use std::collections::BTreeSet;

use muster_api::domain::{AlertRules, Percent};

/// What the controller tells a node about itself. The default is that of a node that was told nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeConfig {
    /// When the node's use of its resources becomes an alert.
    pub alert_rules: AlertRules,
    /// What the placement of instances counts where an item does not say what it needs.
    pub resource_ratios: ResourceRatios,
    /// What instances can ask a node to have.
    pub labels: BTreeSet<String>,
    /// Nodes of higher priority are filled first.
    pub priority: u64,
}

/// What share of its quota an instance is counted with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceRatios {
    /// Of processing power.
    pub cpu: Option<Percent>,
    /// Of memory.
    pub ram: Option<Percent>,
    /// Of storage.
    pub storage: Option<Percent>,
    /// Of the state file.
    pub state: Option<Percent>,
}
