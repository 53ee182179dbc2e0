//! What the network planner is asked.

use std::net::IpAddr;

use muster_api::domain::{InstanceIdent, NetworkId, NodeId, OwnerId, SubjectId, Subnet};
use muster_item::{AllowedConnection, ExposedPort};
use thiserror::Error;

use crate::block::SubnetPool;

/// Whose network it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKey {
    /// All items of an owner.
    Owner(OwnerId),
    /// All items without an owner that run for a subject.
    Subject(SubjectId),
}

impl NetworkKey {
    /// The network of an instance.
    pub fn of(owner: Option<&OwnerId>, subject: &SubjectId) -> Self {
        match owner {
            Some(owner) => Self::Owner(owner.clone()),
            None => Self::Subject(subject.clone()),
        }
    }

    /// The id under which nodes know it. Owners and subjects may have the same ids; the planner sees to it that the networks
    /// of two such do not become one.
    pub fn network_id(&self) -> NetworkId {
        let id = match self {
            Self::Owner(owner) => owner.as_str(),
            Self::Subject(subject) => subject.as_str(),
        };
        NetworkId::new(id).expect("the rules for all ids are the same")
    }
}

/// An instance that is to be attached to its network.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Which one.
    pub instance: InstanceIdent,
    /// Where it runs.
    pub node: NodeId,
    /// To which network.
    pub network: NetworkKey,
    /// From its item's configuration.
    pub hostname: Option<String>,
    /// What it listens on, for other networks.
    pub exposed: Vec<ExposedPort>,
    /// What it may call.
    pub allowed: Vec<AllowedConnection>,
}

/// What a node uses for other things than the networks planned here.
#[derive(Debug, Clone)]
pub struct ForeignSubnets {
    /// Which node.
    pub node: NodeId,
    /// Routes and addresses of its own, without those of networks that were planned here.
    pub subnets: Vec<Subnet>,
}

/// How addresses are given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What subnets are cut from.
    pub pool: SubnetPool,
    /// How many networks, and how many addresses in each, are remembered for whoever gave them back.
    pub remember: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: SubnetPool::default(),
            remember: 1024,
        }
    }
}

/// All that a plan depends on, but for the allocations.
#[derive(Debug, Clone, Default)]
pub struct NetworkRequest {
    /// Placed instances that have a network, in any order.
    pub endpoints: Vec<Endpoint>,
    /// All nodes, in any order. Those with no endpoint get an empty list of networks.
    pub nodes: Vec<ForeignSubnets>,
    /// Whom instances ask for names, besides their node.
    pub dns_servers: Vec<IpAddr>,
    /// How addresses are given out.
    pub settings: Settings,
}

/// The request contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// It cannot have two networks.
    #[error("instance {instance} is listed twice")]
    DuplicateInstance {
        /// Which one.
        instance: InstanceIdent,
    },
    /// It cannot be two.
    #[error("node {node} is listed twice")]
    DuplicateNode {
        /// Which one.
        node: NodeId,
    },
}
