//! The nodes of the Unit: what the identity manager and the Service Managers say of them, joined.
//!
//! `NodeDirectory` is the handle. Facts come from the controller's receivers and from the identity manager; each is put into
//! the pure table, written down if it shall outlive the daemon, and told to whoever it concerns by the caller.

mod database;
pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::{NodeId, NodeInfo, NodeMonitoring, NodeType, SmInfo};
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;

pub(crate) use self::database::SCHEMA;
use self::table::{NodeChange, NodeRecord, NodeTable};

/// All nodes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct NodeDirectory {
    // Held for moments, never over an await.
    table: Arc<Mutex<NodeTable>>,
    store: Store,
}

impl NodeDirectory {
    /// Nodes as they were last described; nobody is connected yet.
    pub(crate) async fn open(store: Store) -> Result<Self, StoreError> {
        let nodes = database::load(&store).await?;
        let table = Arc::new(Mutex::new(NodeTable::recalled(nodes)));
        Ok(Self { table, store })
    }

    fn table(&self) -> MutexGuard<'_, NodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every node as it is now.
    pub(crate) fn all(&self) -> Vec<(NodeId, NodeRecord)> {
        let table = self.table();
        let nodes = table.iter();
        nodes.map(|(id, it)| (id.clone(), it.clone())).collect()
    }

    /// One node as it is now.
    pub(crate) fn get(&self, node: &NodeId) -> Option<NodeRecord> {
        self.table().get(node).cloned()
    }

    /// Nodes that have a stream, with what they are for.
    pub(crate) fn connected_nodes(&self) -> Vec<(NodeId, NodeType)> {
        let table = self.table();
        let connected = table.iter().filter(|(_, it)| it.connected);
        connected
            .map(|(id, it)| (id.clone(), it.node_type()))
            .collect()
    }

    pub(crate) async fn connected(&self, info: SmInfo) -> Option<NodeChange> {
        let change = self.table().connected(info);
        self.keep(change).await
    }

    pub(crate) async fn disconnected(&self, node: &NodeId) -> Option<NodeChange> {
        let change = self.table().disconnected(node);
        self.keep(change).await
    }

    /// Nodes that should have a stream and have none.
    pub(crate) fn missing(&self) -> BTreeSet<NodeId> {
        self.table().missing().cloned().collect()
    }

    pub(crate) async fn silent(&self, node: &NodeId) -> Option<NodeChange> {
        let change = self.table().silent(node);
        self.keep(change).await
    }

    pub(crate) fn measured(&self, node: &NodeId, usage: Arc<NodeMonitoring>) {
        self.table().measured(node, usage);
    }

    pub(crate) async fn set_paused(&self, node: &NodeId, paused: bool) -> Option<NodeChange> {
        let change = self.table().set_paused(node, paused);
        self.keep(change).await
    }

    pub(crate) async fn was_paused(&self, node: &NodeId, paused: bool) -> Option<NodeChange> {
        let change = self.table().was_paused(node, paused);
        self.keep(change).await
    }

    pub(crate) async fn known(&self, all: &BTreeMap<NodeId, NodeInfo>) -> Vec<NodeChange> {
        let changes = self.table().known(all);
        for change in &changes {
            self.write_down(change).await;
        }
        changes
    }

    async fn keep(&self, change: Option<NodeChange>) -> Option<NodeChange> {
        if let Some(change) = &change {
            self.write_down(change).await;
        }
        change
    }

    /// What is lost with a failed write is said again by its source after the next start.
    async fn write_down(&self, change: &NodeChange) {
        if !change.lasting {
            return;
        }
        let kept = database::save(&self.store, &change.node, change.now.as_ref()).await;
        if let Err(error) = kept {
            let (node, error) = (&change.node, ErrorChain(&error));
            tracing::warn!(%node, %error, "a node's description is not kept");
        }
    }
}
