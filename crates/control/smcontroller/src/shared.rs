//! What the controller's handle, its endpoint, its gate and its handlers have in common.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::domain::{ConnectionState, NodeId};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::claims::StreamId;
use crate::gate::GateRequest;
use crate::limits::Limits;
use crate::quarantine::Quarantine;
use crate::receivers::{BlobUrls, Incident, Receivers};
use crate::refusal::StreamRefused;
use crate::stream::{NodeStream, Routes};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) cloud: watch::Receiver<ConnectionState>,
    pub(crate) blobs: Arc<dyn BlobUrls>,
    pub(crate) receivers: Receivers,
    pub(crate) routes: Routes,
    pub(crate) gate: mpsc::Sender<GateRequest>,
    /// The handlers, one per stream.
    pub(crate) handlers: TaskTracker,
    /// No further stream is taken, and those that have not joined end.
    pub(crate) stop: CancellationToken,
    /// Handlers end wherever they are.
    pub(crate) kill: CancellationToken,
    quarantine: Mutex<Quarantine>,
    streams: AtomicU64,
    started: Instant,
}

impl Shared {
    pub(crate) fn new(
        limits: Limits,
        cloud: watch::Receiver<ConnectionState>,
        blobs: Arc<dyn BlobUrls>,
        receivers: Receivers,
        gate: mpsc::Sender<GateRequest>,
    ) -> Self {
        Self {
            limits,
            cloud,
            blobs,
            receivers,
            routes: Routes::default(),
            gate,
            handlers: TaskTracker::new(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            quarantine: Mutex::new(Quarantine::new(limits)),
            streams: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// Time as the pure parts count it.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn next_stream(&self) -> StreamId {
        StreamId(self.streams.fetch_add(1, Ordering::Relaxed))
    }

    /// Refuses a node that is kept out.
    pub(crate) fn check_quarantine(&self, node: &NodeId) -> Result<(), StreamRefused> {
        let quarantine = self.quarantine.lock();
        let quarantine = quarantine.unwrap_or_else(PoisonError::into_inner);
        match quarantine.rest(node, self.now()) {
            Some(rest) => Err(StreamRefused::Quarantined {
                node: node.clone(),
                rest,
            }),
            None => Ok(()),
        }
    }

    /// Ends a stream for a reason, once: the peer is told, the node is kept out if it did something, and whoever watches learns.
    pub(crate) fn refuse(&self, stream: &NodeStream, why: StreamRefused) {
        if stream.end(&why) {
            self.note(stream.address, stream.node(), why);
        }
    }

    /// The same for a stream that was never begun.
    pub(crate) fn note(&self, address: SocketAddr, node: Option<&NodeId>, why: StreamRefused) {
        let kept_out = node.filter(|_| why.is_offence()).map(|node| {
            let quarantine = self.quarantine.lock();
            let mut quarantine = quarantine.unwrap_or_else(PoisonError::into_inner);
            quarantine.punish(node, self.now())
        });
        let name = node.map_or("unknown", NodeId::as_str);
        if !why.is_news() {
            match why {
                StreamRefused::Quarantined { .. } => {
                    debug!(node = name, %address, reason = %why, "a node's stream was refused");
                }
                _ => info!(node = name, %address, reason = %why, "a node's stream ends"),
            }
            return;
        }
        warn!(node = name, %address, reason = %why, ?kept_out, "a node's stream was refused");
        self.receivers.nodes.incident(Incident::Refused {
            node: node.cloned(),
            address,
            why,
            kept_out,
        });
    }
}
