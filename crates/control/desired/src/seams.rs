//! What updates need from the rest of the Communication Manager.
//!
//! Everything here is idempotent: after a death in the middle the same is asked again. What fails says so with an [`AosError`],
//! which is what clouds and operators are told. What does not answer within [`Limits::answer`](crate::Limits::answer) has
//! failed, and its future is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosError, InstanceIdent, InstanceInfo, ItemId, NodeId};
use muster_api::servicemanager::v5 as wire;
use muster_balance::{Place, Placement, Reason, Standing};
use tokio::sync::watch;

use crate::document::{DesiredStatus, Item};
use crate::machine::UpdateId;
use crate::progress::{Bytes, Progress};

/// Where a download says how far it is.
#[derive(Debug, Clone)]
pub struct DownloadMeter(pub(crate) watch::Sender<Bytes>);

impl DownloadMeter {
    /// So much is there of so much (0 while not known). Every call counts as a sign of life, so one that waits calls too.
    pub fn set(&self, done: u64, total: u64) {
        self.0.send_replace(Bytes { done, total });
    }
}

/// Gets items and keeps them.
pub trait Downloads: Send + Sync + fmt::Debug + 'static {
    /// Makes the item whole, verified and ready to be fetched by nodes; at once if it is. Dropped when it is not wanted any
    /// more; what is there then serves the next try. `desired` says whom signatures may be from.
    fn download(
        &self,
        item: Item,
        desired: Arc<DesiredStatus>,
        meter: DownloadMeter,
    ) -> BoxFuture<'_, Result<(), AosError>>;

    /// Only these are needed from now on. Others may be removed, at once or after a while.
    fn retain(&self, items: BTreeSet<Item>) -> BoxFuture<'_, Result<(), AosError>>;
}

/// What is asked before instances are placed.
#[derive(Debug, Clone)]
pub struct Question {
    /// For which update.
    pub update: UpdateId,
    /// What is wanted.
    pub desired: Arc<DesiredStatus>,
    /// Items that can run: the wanted versions, or, where those could not be had, the ones that ran before. Wanted instances
    /// of other items are left out.
    pub items: BTreeMap<ItemId, Item>,
    /// Nodes that are known here. Others have not been seen for long, and are offline.
    pub nodes: BTreeMap<NodeId, Standing>,
    /// What runs where.
    pub running: Placement,
    /// Why it is asked.
    pub reason: Reason,
}

/// What a node shall have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeShare {
    /// Its networks.
    pub networks: Vec<wire::UpdateNetworkParameters>,
    /// Exactly these run on it.
    pub instances: Vec<InstanceInfo>,
}

/// Which node runs what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// Nodes that are not listed run nothing.
    pub nodes: BTreeMap<NodeId, NodeShare>,
    /// What is wanted and cannot run.
    pub unplaced: BTreeMap<InstanceIdent, AosError>,
}

impl Assignment {
    /// The same as places.
    pub fn placement(&self) -> Placement {
        let mut placement = Placement::new();
        for (node, share) in &self.nodes {
            placement.extend(share.instances.iter().map(|info| {
                let place = Place {
                    node: node.clone(),
                    runtime: info.runtime_id.clone(),
                };
                (info.instance.clone(), place)
            }));
        }
        placement
    }
}

/// Places instances: balancing, networks, users, folders for data.
pub trait Balancer: Send + Sync + fmt::Debug + 'static {
    /// Where everything runs. What it hands out (addresses, users) is durable when it answers.
    fn plan(&self, question: Question) -> BoxFuture<'_, Result<Assignment, AosError>>;
}

/// The nodes of the Unit.
pub trait Nodes: Send + Sync + fmt::Debug + 'static {
    /// Pauses and resumes nodes and installs the Unit's configuration, as far as that differs from what they have.
    fn configure(&self, desired: Arc<DesiredStatus>) -> BoxFuture<'_, Result<(), AosError>>;

    /// From now on the node has exactly this; `stop` is what ran and is not wanted any more. Done when the node has taken it.
    fn update(
        &self,
        node: NodeId,
        share: NodeShare,
        stop: Vec<InstanceIdent>,
    ) -> BoxFuture<'_, Result<(), AosError>>;
}

/// Tells others how updates go. Called by the one task of this crate, so it only takes note.
pub trait Reports: Send + Sync + fmt::Debug + 'static {
    /// Something has changed; at most once per [`Limits::report_period`](crate::Limits::report_period), and once at the start.
    fn changed(&self, progress: &Arc<Progress>);
    /// An update, or a new placement of what runs, has come to its end.
    fn finished(&self, progress: &Arc<Progress>);
}
