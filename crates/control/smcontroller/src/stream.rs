//! One stream of a node, as everybody who has to do with it sees it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use muster_api::domain::NodeId;
use muster_rpc::session::Session;
use tonic::Status;

use crate::claims::StreamId;
use crate::protocol::ControllerEnd;
use crate::refusal::StreamRefused;

/// A stream and who is at its other end.
#[derive(Debug)]
pub(crate) struct NodeStream {
    pub(crate) id: StreamId,
    pub(crate) address: SocketAddr,
    /// The node that the peer's certificate names; nothing on a port without certificates.
    pub(crate) certified: Option<NodeId>,
    pub(crate) session: Session<ControllerEnd>,
    named: OnceLock<NodeId>,
    ended: AtomicBool,
}

impl NodeStream {
    pub(crate) fn new(
        id: StreamId,
        address: SocketAddr,
        certified: Option<NodeId>,
        session: Session<ControllerEnd>,
    ) -> Self {
        Self {
            id,
            address,
            certified,
            session,
            named: OnceLock::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// The peer has said which node it is.
    pub(crate) fn name(&self, node: &NodeId) {
        // A stream keeps its first name.
        let _ = self.named.set(node.clone());
    }

    /// Whose stream it is, as far as that is known.
    pub(crate) fn node(&self) -> Option<&NodeId> {
        self.certified.as_ref().or_else(|| self.named.get())
    }

    /// Ends the stream. Only the first reason counts, and only then is the answer true.
    pub(crate) fn end(&self, why: &StreamRefused) -> bool {
        let first = !self.ended.swap(true, Ordering::Relaxed);
        if first {
            self.session.close(Some(Status::from(why)));
        }
        first
    }
}

/// Where commands go. The gate puts a node's stream in when it is admitted; the stream's own handler takes it out.
#[derive(Debug, Default)]
pub(crate) struct Routes(RwLock<HashMap<NodeId, Arc<NodeStream>>>);

impl Routes {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<NodeId, Arc<NodeStream>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, node: NodeId, stream: Arc<NodeStream>) {
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        routes.insert(node, stream);
    }

    pub(crate) fn remove(&self, node: &NodeId, stream: StreamId) {
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if routes.get(node).is_some_and(|route| route.id == stream) {
            routes.remove(node);
        }
    }

    pub(crate) fn clear(&self) {
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        routes.clear();
    }

    pub(crate) fn get(&self, node: &NodeId) -> Option<Arc<NodeStream>> {
        self.read().get(node).cloned()
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.read().keys().cloned().collect()
    }

    /// Whether some node is connected from there.
    pub(crate) fn any_from(&self, address: IpAddr) -> bool {
        self.read()
            .values()
            .any(|route| route.address.ip() == address)
    }
}
