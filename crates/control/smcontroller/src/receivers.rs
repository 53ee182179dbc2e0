//! Who gets what nodes say. The rest of the Communication Manager implements these.
//!
//! The messages of one node come one at a time and in order, and the next one comes when the future of the last is done. A
//! receiver that takes its time holds that node back, and no other. Everything that a node said on one stream comes before its
//! `disconnected`, and that before anything of its next stream.
//!
//! A receiver gives commands as it likes, but does not wait for a node's *answer* while it takes a message of that node: the
//! answer may stand in line behind messages that wait to be taken. It leaves that to a task of its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use muster_api::domain::{Alert, Digest, InstanceStatus, NodeId, NodeMonitoring, SmInfo};
use muster_api::servicemanager::v5 as wire;

use crate::refusal::StreamRefused;

/// A receiver's work on one message.
pub type Taken<'a> = BoxFuture<'a, ()>;

fn nothing_to_do<'a>() -> Taken<'a> {
    Box::pin(ready(()))
}

/// Something about a node's stream that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A stream was refused, or cut.
    Refused {
        /// Whose stream it was, as far as that is known.
        node: Option<NodeId>,
        /// Where it came from.
        address: SocketAddr,
        /// Why.
        why: StreamRefused,
        /// How long the node is kept out for it.
        kept_out: Option<Duration>,
    },
    /// A node sends more than is taken, and is held back. Told once for each stream.
    Slowed {
        /// The node.
        node: NodeId,
        /// Where it is.
        address: SocketAddr,
    },
}

/// Learns which nodes there are.
pub trait NodeReceiver: Send + Sync + fmt::Debug + 'static {
    /// A node is connected, or says anew what it has. Commands can be given to it from now on.
    fn connected(&self, info: SmInfo) -> Taken<'_>;
    /// The node is gone. Told after every other receiver was.
    fn disconnected(&self, node: &NodeId) -> Taken<'_>;
    /// Something is wrong. Called wherever it was noticed, so it only takes note.
    fn incident(&self, incident: Incident);
}

/// Learns how instances are, their environment variables included.
pub trait InstanceStatusReceiver: Send + Sync + fmt::Debug + 'static {
    /// These have changed.
    fn changed(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_>;
    /// These are all instances of the node.
    fn all(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_>;
    /// The node is gone; nothing is known of its instances any more.
    fn disconnected(&self, node: &NodeId) -> Taken<'_>;
}

/// Gets measurements.
pub trait MonitoringReceiver: Send + Sync + fmt::Debug + 'static {
    /// The latest of a node and its instances.
    fn instant(&self, node: &NodeId, monitoring: NodeMonitoring) -> Taken<'_>;
    /// The node is gone.
    fn disconnected(&self, _node: &NodeId) -> Taken<'_> {
        nothing_to_do()
    }
}

/// Gets alerts.
pub trait AlertReceiver: Send + Sync + fmt::Debug + 'static {
    /// A node raises an alert.
    fn alert(&self, node: &NodeId, alert: Alert) -> Taken<'_>;
    /// The node is gone.
    fn disconnected(&self, _node: &NodeId) -> Taken<'_> {
        nothing_to_do()
    }
}

/// Gets parts of logs, which are passed on unread.
pub trait LogReceiver: Send + Sync + fmt::Debug + 'static {
    /// A part of an answer.
    fn part(&self, node: &NodeId, part: wire::LogData) -> Taken<'_>;
    /// The node is gone; parts that are missing do not come any more.
    fn disconnected(&self, _node: &NodeId) -> Taken<'_> {
        nothing_to_do()
    }
}

/// Everybody who gets something.
#[derive(Clone, Debug)]
pub struct Receivers {
    /// Nodes that come and go.
    pub nodes: Arc<dyn NodeReceiver>,
    /// How instances are.
    pub instances: Arc<dyn InstanceStatusReceiver>,
    /// Measurements.
    pub monitoring: Arc<dyn MonitoringReceiver>,
    /// Alerts.
    pub alerts: Arc<dyn AlertReceiver>,
    /// Logs.
    pub logs: Arc<dyn LogReceiver>,
}

impl Receivers {
    pub(crate) async fn disconnected(&self, node: &NodeId) {
        self.instances.disconnected(node).await;
        self.monitoring.disconnected(node).await;
        self.alerts.disconnected(node).await;
        self.logs.disconnected(node).await;
        self.nodes.disconnected(node).await;
    }
}

/// Why the place of a blob cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ResolveBlobError {
    /// There is no such blob.
    #[error("there is no blob {digest}")]
    Unknown {
        /// Its digest.
        digest: Digest,
    },
    /// It could not be found out.
    #[error("cannot tell where blob {digest} is")]
    Failed {
        /// Its digest.
        digest: Digest,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Knows where blobs can be fetched.
pub trait BlobUrls: Send + Sync + fmt::Debug + 'static {
    /// Where a node can fetch the blob.
    fn url(
        &self,
        node: Option<&NodeId>,
        digest: Digest,
    ) -> BoxFuture<'_, Result<String, ResolveBlobError>>;
}
