//! One stream of a node, from its first message to its last.

mod dispatch;

use std::sync::{Arc, OnceLock};

use muster_api::domain::{ConnectionState, NodeId, SmInfo};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::session::SessionIncoming;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tracing::info;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use self::dispatch::Dispatch;
use crate::gate::GateRequest;
use crate::protocol::{ControllerEnd, connection_status, name_of};
use crate::refusal::StreamRefused;
use crate::shared::Shared;
use crate::stream::NodeStream;

/// What the decoder said last, if the stream ended because of it.
pub(crate) type DecodeProblem = Arc<OnceLock<String>>;

pub(crate) struct Handler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stream: Arc<NodeStream>,
    pub(crate) incoming: SessionIncoming<ControllerEnd>,
    pub(crate) decode_problem: DecodeProblem,
}

impl Handler {
    /// Runs until the stream is over and everything that arrived on it has been taken.
    pub(crate) async fn run(self) {
        let cloud = tell_cloud_state(Arc::clone(&self.shared), Arc::clone(&self.stream));
        let mut serve = std::pin::pin!(self.serve());
        tokio::select! {
            // The state of the cloud is the first thing that a node is told, before it is known.
            biased;
            () = cloud => {}
            () = &mut serve => return,
        }
        serve.await;
    }

    async fn serve(mut self) {
        let within = self.shared.limits.hello;
        let stop = self.shared.stop.clone();
        let hello = match stop
            .run_until_cancelled(timeout(within, self.hello()))
            .await
        {
            Some(Ok(hello)) => hello,
            Some(Err(_)) => Err(StreamRefused::NoHello { within }),
            None => Err(StreamRefused::Stopping),
        };
        match hello {
            Ok(Some(info)) => self.join(*info).await,
            Ok(None) => self.look_at_the_end(),
            Err(refused) => self.refuse(refused),
        }
    }

    /// The first message; nothing when the stream ended before it.
    async fn hello(&mut self) -> Result<Option<Box<SmInfo>>, StreamRefused> {
        let Some(first) = self.incoming.recv().await else {
            return Ok(None);
        };
        let info = match first.sm_outgoing_message {
            Some(Said::SmInfo(info)) => info,
            other => {
                let found = name_of(other.as_ref());
                return Err(StreamRefused::NotHello { found });
            }
        };
        let info =
            SmInfo::try_from(info).map_err(|problem| StreamRefused::InvalidInfo { problem })?;
        self.stream.name(&info.node_id);
        match &self.stream.certified {
            Some(certified) if *certified != info.node_id => {
                return Err(StreamRefused::OtherCertificate {
                    claimed: info.node_id,
                    certified: certified.clone(),
                });
            }
            // Was looked at when the stream came.
            Some(_) => {}
            None => self.shared.check_quarantine(&info.node_id)?,
        }
        Ok(Some(Box::new(info)))
    }

    /// Waits until the stream is the node's, and is its handler from then on.
    async fn join(mut self, info: SmInfo) {
        let node = info.node_id.clone();
        let (verdict, decided) = oneshot::channel();
        let join = GateRequest::Join {
            node: node.clone(),
            stream: Arc::clone(&self.stream),
            verdict,
        };
        // A gate that has ended takes nobody.
        let _ = self.shared.gate.send(join).await;
        match decided.await.unwrap_or(Err(StreamRefused::Stopping)) {
            Ok(()) => self.handle(&node, info).await,
            Err(refused) => self.refuse(refused),
        }
        let left = GateRequest::Left {
            node,
            stream: self.stream.id,
        };
        let _ = self.shared.gate.send(left).await;
    }

    async fn handle(&mut self, node: &NodeId, info: SmInfo) {
        info!(%node, address = %self.stream.address, "a node is connected");
        self.shared.receivers.nodes.connected(info).await;
        let mut dispatch = Dispatch::new(&self.shared, node, self.stream.address);
        while let Some(message) = self.incoming.recv().await {
            if let Err(refused) = dispatch.take(message).await {
                self.refuse(refused);
                // What it sent after that is not looked at.
                break;
            }
        }
        self.shared.routes.remove(node, self.stream.id);
        self.look_at_the_end();
        self.shared.receivers.disconnected(node).await;
        info!(%node, address = %self.stream.address, "a node is disconnected");
    }

    fn refuse(&self, why: StreamRefused) {
        self.shared.refuse(&self.stream, why);
    }

    /// A stream that broke because of what the node sent is not just a broken stream.
    fn look_at_the_end(&self) {
        if let Some(problem) = self.decode_problem.get() {
            let problem = problem.clone();
            self.refuse(StreamRefused::Undecodable { problem });
        }
    }
}

/// Tells the node how the cloud is, at once and on every change. A node that does not take it is cut off.
async fn tell_cloud_state(shared: Arc<Shared>, stream: Arc<NodeStream>) {
    let mut cloud: watch::Receiver<ConnectionState> = shared.cloud.clone();
    loop {
        let state = *cloud.borrow_and_update();
        let waited = shared.limits.stall;
        match timeout(waited, stream.session.send(connection_status(state))).await {
            Ok(Ok(())) => {}
            // The stream is over.
            Ok(Err(_)) => return,
            Err(_) => {
                shared.refuse(&stream, StreamRefused::Stalled { waited });
                return;
            }
        }
        if cloud.changed().await.is_err() {
            // Nobody tells any more; the last state stays.
            return;
        }
    }
}
