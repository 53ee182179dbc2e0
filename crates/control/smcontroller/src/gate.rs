//! The owner of [`Claims`]: decides which stream becomes a node's, and carries that out.

use std::collections::HashMap;
use std::sync::Arc;

use muster_api::domain::NodeId;
use muster_api::servicemanager::v5 as wire;
use tokio::sync::{mpsc, oneshot};
use tracing::info;
use wire::sm_incoming_messages::SmIncomingMessage as Command;

use crate::claims::{Claims, Effect, StreamId};
use crate::protocol::{AVERAGE_MONITORING, NODE_CONFIG_STATUS, to_node};
use crate::refusal::StreamRefused;
use crate::shared::Shared;
use crate::stream::NodeStream;

/// Streams and results of pings that wait for the gate.
pub(crate) const GATE_QUEUE: usize = 1024;

/// What the gate is told.
#[derive(Debug)]
pub(crate) enum GateRequest {
    /// A stream says that it is the node's.
    Join {
        node: NodeId,
        stream: Arc<NodeStream>,
        verdict: oneshot::Sender<Result<(), StreamRefused>>,
    },
    /// The stream was pinged.
    Pinged {
        node: NodeId,
        stream: StreamId,
        answers: bool,
    },
    /// The stream is over and emptied.
    Left { node: NodeId, stream: StreamId },
    /// Every stream ends, and no further one is taken.
    Stop,
}

#[derive(Debug)]
struct Joined {
    stream: Arc<NodeStream>,
    /// Until it is known.
    verdict: Option<oneshot::Sender<Result<(), StreamRefused>>>,
}

/// The task that decides about second streams. Its future ends when the controller is stopped and every stream has left.
#[derive(Debug)]
pub(crate) struct Gate {
    shared: Arc<Shared>,
    claims: Claims,
    streams: HashMap<StreamId, Joined>,
    effects: Vec<Effect>,
    stopping: bool,
}

impl Gate {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            claims: Claims::default(),
            streams: HashMap::new(),
            effects: Vec::new(),
            stopping: false,
        }
    }

    pub(crate) async fn run(self, requests: mpsc::Receiver<GateRequest>) {
        let kill = self.shared.kill.clone();
        // Handlers that were dropped do not say that they left.
        kill.run_until_cancelled(self.decide(requests)).await;
    }

    async fn decide(mut self, mut requests: mpsc::Receiver<GateRequest>) {
        while let Some(request) = requests.recv().await {
            self.take(request);
            if self.stopping && self.streams.is_empty() {
                return;
            }
        }
    }

    fn take(&mut self, request: GateRequest) {
        match request {
            GateRequest::Join {
                stream, verdict, ..
            } if self.stopping => {
                stream.end(&StreamRefused::Stopping);
                // The handler may have been dropped.
                let _ = verdict.send(Err(StreamRefused::Stopping));
            }
            GateRequest::Join {
                node,
                stream,
                verdict,
            } => {
                let id = stream.id;
                let verdict = Some(verdict);
                self.streams.insert(id, Joined { stream, verdict });
                self.claims.join(&node, id, &mut self.effects);
                self.carry_out(&node);
            }
            GateRequest::Pinged {
                node,
                stream,
                answers,
            } => {
                self.claims
                    .pinged(&node, stream, answers, &mut self.effects);
                self.carry_out(&node);
            }
            GateRequest::Left { node, stream } => {
                self.streams.remove(&stream);
                self.claims.left(&node, stream, &mut self.effects);
                self.carry_out(&node);
            }
            GateRequest::Stop => {
                self.stopping = true;
                for joined in self.streams.values() {
                    joined.stream.end(&StreamRefused::Stopping);
                }
            }
        }
    }

    fn carry_out(&mut self, node: &NodeId) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Admit(stream) => self.admit(node, stream),
                Effect::Refuse(stream, why) => {
                    if let Some(verdict) = self.verdict(stream) {
                        // The handler may have been dropped.
                        let _ = verdict.send(Err(why));
                    }
                }
                Effect::Ping(stream) => self.ping(node.clone(), stream),
                Effect::Close(stream, why) => {
                    if let Some(joined) = self.streams.get(&stream) {
                        let address = joined.stream.address;
                        info!(%node, %address, "a node that does not answer makes room for its next stream");
                        joined.stream.end(&why);
                    }
                }
            }
        }
    }

    fn verdict(&mut self, stream: StreamId) -> Option<oneshot::Sender<Result<(), StreamRefused>>> {
        self.streams.get_mut(&stream)?.verdict.take()
    }

    fn admit(&mut self, node: &NodeId, id: StreamId) {
        let Some(joined) = self.streams.get_mut(&id) else {
            return;
        };
        let Some(verdict) = joined.verdict.take() else {
            return;
        };
        if self.stopping {
            let _ = verdict.send(Err(StreamRefused::Stopping));
            return;
        }
        // Before anybody is told of the node: whoever is may command it at once.
        self.shared
            .routes
            .insert(node.clone(), Arc::clone(&joined.stream));
        // A handler that was dropped has nothing to take the node out again.
        if verdict.send(Ok(())).is_err() {
            self.shared.routes.remove(node, id);
        }
    }

    /// Asks two questions that change nothing; an answer to either will do, since one of the two may have to wait behind a
    /// command of its kind.
    fn ping(&self, node: NodeId, id: StreamId) {
        let Some(joined) = self.streams.get(&id) else {
            return;
        };
        let session = joined.stream.session.clone();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let patience = shared.limits.ping;
            let config = to_node(Command::GetNodeConfigStatus(wire::GetNodeConfigStatus {}));
            let average = to_node(Command::GetAverageMonitoring(wire::GetAverageMonitoring {}));
            let config = session.ask_within(config, NODE_CONFIG_STATUS, patience);
            let average = session.ask_within(average, AVERAGE_MONITORING, patience);
            let asked =
                futures_util::future::select_ok([Box::pin(config) as Asked, Box::pin(average)]);
            let answers = asked.await.is_ok();
            let pinged = GateRequest::Pinged {
                node,
                stream: id,
                answers,
            };
            // Nobody to tell when the gate has ended.
            let _ = shared.gate.send(pinged).await;
        });
    }
}

type Asked<'a> = futures_util::future::BoxFuture<
    'a,
    Result<wire::SmOutgoingMessages, muster_rpc::slots::AskError>,
>;
