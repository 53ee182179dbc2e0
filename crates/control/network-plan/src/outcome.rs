//! What the network planner answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use muster_api::domain::{
    InstanceIdent, ItemId, NetworkId, NetworkParameters, NodeId, PortRange, Subnet,
    TransportProtocol,
};
use muster_api::servicemanager::v5 as wire;
use thiserror::Error;

use crate::allocations::Allocations;
use crate::block::Block;

/// A VLAN: 1 to 4094, what IEEE 802.1Q leaves for use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    pub(crate) const FIRST: u16 = 1;
    pub(crate) const LAST: u16 = 4094;

    /// `None` for numbers that are no VLAN.
    pub fn new(number: u16) -> Option<Self> {
        (Self::FIRST..=Self::LAST)
            .contains(&number)
            .then_some(Self(number))
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

/// A node's place in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNetwork {
    /// Which network.
    pub network_id: NetworkId,
    /// The network's addresses.
    pub subnet: Subnet,
    /// The node's own address in it.
    pub ip: Ipv4Addr,
    /// Joins the nodes of the network.
    pub vlan: VlanId,
}

impl From<NodeNetwork> for wire::UpdateNetworkParameters {
    fn from(network: NodeNetwork) -> Self {
        Self {
            network_id: network.network_id.into(),
            subnet: network.subnet.to_string(),
            ip: network.ip.to_string(),
            vlan_id: network.vlan.get().into(),
        }
    }
}

/// Names and the addresses they stand for, in lower case.
pub type HostTable = BTreeMap<String, BTreeSet<Ipv4Addr>>;

/// All networks of the Unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPlan {
    /// By node, all that it has; nodes with none are listed too.
    pub nodes: BTreeMap<NodeId, Vec<NodeNetwork>>,
    /// By instance.
    pub instances: BTreeMap<InstanceIdent, NetworkParameters>,
    /// By network, what can be resolved in it.
    pub hosts: BTreeMap<NetworkId, HostTable>,
    /// Instances that cannot be attached.
    pub refused: BTreeMap<InstanceIdent, AttachError>,
    /// What somebody should know.
    pub notes: Vec<Note>,
    /// For the next plan. Must be durable before this plan is carried out.
    pub allocations: Allocations,
}

/// An instance cannot be attached to its network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AttachError {
    /// An owner and a subject have the same id, and the owner's network has it.
    #[error(
        "network {network} belongs to an owner whose id is also that of the instance's subject"
    )]
    NetworkNameTaken {
        /// Which network.
        network: NetworkId,
    },
    /// No subnet is free.
    #[error("no subnet is left for network {network}: all {subnets} of the pool are in use")]
    NoSubnet {
        /// Which network.
        network: NetworkId,
        /// How many there are.
        subnets: usize,
    },
    /// No VLAN is free.
    #[error("no VLAN is left for network {network}")]
    NoVlan {
        /// Which network.
        network: NetworkId,
    },
    /// No address is free for the instance or its node.
    #[error("no address is left in network {network} ({subnet})")]
    NoAddress {
        /// Which network.
        network: NetworkId,
        /// Its addresses.
        subnet: Block,
    },
}

/// Something that works as planned, but perhaps not as meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// A node uses a subnet that a network on it has. Nothing was renumbered.
    SubnetInUse {
        /// Which network.
        network: NetworkId,
        /// Its addresses.
        subnet: Block,
        /// Which node.
        node: NodeId,
        /// What the node uses.
        foreign: Block,
    },
    /// An instance may call something that cannot be called.
    Unmet {
        /// Which instance.
        instance: InstanceIdent,
        /// Instances of which item it may call.
        item: ItemId,
        /// At which ports, as `item/port/protocol` has it.
        connection: String,
        /// What is missing.
        why: Unmet,
    },
    /// A name belongs to somebody else.
    NameTaken {
        /// In which network.
        network: NetworkId,
        /// Which name.
        name: String,
        /// Who does not get it.
        instance: InstanceIdent,
    },
    /// A name cannot be asked for: the ids in it do not make labels of a domain name.
    NoName {
        /// Which name.
        name: String,
        /// Who does not get it.
        instance: InstanceIdent,
    },
}

/// Why a connection cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmet {
    /// No instance of the item has a network.
    NoInstance,
    /// Its instances do not expose the port.
    NotExposed,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SubnetInUse {
                network,
                subnet,
                node,
                foreign,
            } => write!(
                f,
                "node {node} uses {foreign}, which network {network} ({subnet}) has on it too"
            ),
            Self::Unmet {
                instance,
                item,
                connection,
                why: Unmet::NoInstance,
            } => write!(
                f,
                "{instance} may call {connection}, but {item} has no instance with a network"
            ),
            Self::Unmet {
                instance,
                item,
                connection,
                why: Unmet::NotExposed,
            } => write!(
                f,
                "{instance} may call {connection}, which {item} does not expose"
            ),
            Self::NameTaken {
                network,
                name,
                instance,
            } => write!(
                f,
                "{instance} is not known as {name} in network {network}: the name belongs to another one"
            ),
            Self::NoName { name, instance } => {
                let name = name.escape_debug();
                write!(
                    f,
                    "{instance} cannot be known as {name}: it is no host name"
                )
            }
        }
    }
}

/// As item configurations write it.
pub(crate) fn connection_text(
    item: &ItemId,
    ports: PortRange,
    protocol: TransportProtocol,
) -> String {
    format!("{item}/{ports}/{protocol}")
}
