//! What the balancer is asked.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{
    Digest, InstanceIdent, ItemId, ItemType, NodeId, ResourceInfo, RuntimeId, RuntimeInfo,
    RuntimeType, SubjectId,
};
use muster_item::{BalancingPolicy, ItemConfig, Platform, Quotas, RequestedResources};
use thiserror::Error;

use crate::demand::{Amounts, DataPools, Ratios};
use crate::ledger::IdRange;

/// Whether a node takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It runs instances and takes new ones.
    Ready,
    /// An operator has paused it: it keeps what it has and gets nothing new.
    Paused,
    /// Not connected, but not for so long that it counts as lost: it keeps what it has and gets nothing new.
    Away,
    /// Lost: what it had is placed elsewhere.
    Offline,
    /// Not provisioned, or in error: nothing can run on it.
    NotMember,
}

/// How much instances may use of a node. What is absent is not known and does not limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// DMIPS.
    pub cpu: Option<u64>,
    /// Bytes.
    pub ram: Option<u64>,
}

/// A node that instances may run on.
#[derive(Debug, Clone)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// Whether it takes part.
    pub standing: Standing,
    /// Higher is preferred.
    pub priority: u64,
    /// What instances may ask for.
    pub labels: BTreeSet<String>,
    /// What instances may ask for, some of it in limited number.
    pub resources: Vec<ResourceInfo>,
    /// What runs instances. Amounts that are absent do not limit, nor does a `max_instances` of 0.
    pub runtimes: Vec<RuntimeInfo>,
    /// All that there is.
    pub capacity: Capacity,
    /// What the node uses besides its instances, as measured.
    pub system_use: Amounts,
    /// From its configuration.
    pub ratios: Ratios,
}

impl Node {
    /// A ready node with nothing in it.
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            standing: Standing::Ready,
            priority: 0,
            labels: BTreeSet::new(),
            resources: Vec::new(),
            runtimes: Vec::new(),
            capacity: Capacity::default(),
            system_use: Amounts::default(),
            ratios: Ratios::default(),
        }
    }
}

/// One of an item's images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its manifest.
    pub manifest: Digest,
    /// What it is built for; it runs anywhere if it does not say.
    pub platform: Option<Platform>,
}

/// How the instances of an item are laid over nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Each on the best node.
    #[default]
    Best,
    /// As few as possible on the same node, so that the loss of one takes few of them.
    Spread,
}

/// An item that is to run for a subject.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What.
    pub item: ItemId,
    /// For whom.
    pub subject: SubjectId,
    /// What kind of thing.
    pub kind: ItemType,
    /// How many instances, numbered from 0.
    pub count: u64,
    /// Higher is more important.
    pub priority: u64,
    /// The only node that may run it.
    pub pin: Option<NodeId>,
    /// A node must have all of them.
    pub labels: BTreeSet<String>,
    /// Resources of the node that each instance uses one of.
    pub resources: BTreeSet<String>,
    /// Types of runtimes that can run it, in order of preference.
    pub runtimes: Vec<RuntimeType>,
    /// Its images, in the order of its index. At least one.
    pub images: Vec<Image>,
    /// Whether it may be moved.
    pub policy: BalancingPolicy,
    /// How its instances are laid over nodes.
    pub distribution: Distribution,
    /// The most that an instance may use.
    pub quotas: Quotas,
    /// What an instance needs.
    pub requested: RequestedResources,
}

impl Wanted {
    /// One instance of an item, with what its configuration says about choosing a node.
    pub fn new(
        item: ItemId,
        subject: SubjectId,
        kind: ItemType,
        images: Vec<Image>,
        config: &ItemConfig,
    ) -> Self {
        let resources = config.resources.iter().map(|wanted| wanted.name.clone());
        Self {
            item,
            subject,
            kind,
            count: 1,
            priority: 0,
            pin: None,
            labels: BTreeSet::new(),
            resources: resources.collect(),
            runtimes: config.runtimes.clone(),
            images,
            policy: config.balancing_policy,
            distribution: Distribution::default(),
            quotas: config.quotas,
            requested: config.requested_resources,
        }
    }

    /// The `number`-th instance.
    pub fn ident(&self, number: u64) -> InstanceIdent {
        InstanceIdent {
            item_id: self.item.clone(),
            subject_id: self.subject.clone(),
            instance: number,
            item_type: self.kind,
            preinstalled: false,
        }
    }

    /// Whether instances stay on the node where they were first placed.
    pub(crate) fn is_bound(&self) -> bool {
        self.kind == ItemType::Component || self.policy == BalancingPolicy::Disabled
    }
}

/// Where an instance runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// On which node.
    pub node: NodeId,
    /// By which of its runtimes.
    pub runtime: RuntimeId,
}

/// What runs where.
pub type Placement = BTreeMap<InstanceIdent, Place>;

/// How far the use of a node must come down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relief {
    /// Which node raised the alert.
    pub node: NodeId,
    /// What the node may use in all, as a rule the lower threshold of its alert rule.
    pub target: Capacity,
}

/// Why the question is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Other instances are wanted, or for other subjects.
    NewDesired,
    /// The configuration of nodes changed, or nodes came.
    ConfigChange,
    /// This node is gone, whatever its standing says.
    NodeLost(NodeId),
    /// These nodes use too much.
    QuotaAlert(Vec<Relief>),
    /// What was planned since did not work: back to these places.
    Rollback(Placement),
}

/// What may be handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Users of instances.
    pub uids: IdRange,
    /// Groups of items.
    pub gids: IdRange,
    /// Instances in one plan.
    pub instances: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            uids: IdRange::DEFAULT,
            gids: IdRange::DEFAULT,
            instances: 100_000,
        }
    }
}

/// All that a plan depends on, but for the ledger.
#[derive(Debug, Clone)]
pub struct Request {
    /// In any order.
    pub nodes: Vec<Node>,
    /// In any order.
    pub wanted: Vec<Wanted>,
    /// What runs where now.
    pub running: Placement,
    /// What running instances use, as measured. Counts only for nodes with a quota alert.
    pub measured: BTreeMap<InstanceIdent, Amounts>,
    /// Why the question is asked.
    pub reason: Reason,
    /// Room for data.
    pub pools: DataPools,
    /// What may be handed out.
    pub limits: Limits,
}

/// The request contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Two nodes have one id.
    #[error("node {node} is listed twice")]
    DuplicateNode {
        /// Which.
        node: NodeId,
    },
    /// A node has two runtimes of one id.
    #[error("node {node} lists runtime {runtime} twice")]
    DuplicateRuntime {
        /// Which.
        node: NodeId,
        /// Which of it.
        runtime: RuntimeId,
    },
    /// An item is wanted twice for one subject.
    #[error("item {item} is wanted twice for subject {subject}")]
    DuplicateWanted {
        /// What.
        item: ItemId,
        /// For whom.
        subject: SubjectId,
    },
    /// There is nothing to run.
    #[error("item {item} has no image")]
    NoImage {
        /// What.
        item: ItemId,
    },
    /// More than [`Limits::instances`].
    #[error("{count} instances are wanted, and {limit} are the most that one plan may have")]
    TooManyInstances {
        /// How many are wanted.
        count: u64,
        /// How many may be.
        limit: u64,
    },
}
