//! The registry of a Main Node, as its daemon uses it.

mod actor;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures_util::Stream;
use muster_api::domain::{AosCode, AosError, NodeId, NodeInfo};
use muster_api::iamanager::v6 as wire;
use muster_rpc::session::{self, SessionConfig, SessionOutgoing};
use muster_rpc::slots::{AskError, SlotLimits};
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tonic::{Code, Status};

use crate::command::{Answer, Command, CommandKind, NodeCommands};
use crate::limits::RegistryLimits;
use crate::protocol::MainEnd;
use crate::published::{NodeChanges, Published, published};
use crate::record::NodeRecord;
use crate::refusal::JoinRefused;
use crate::stored::{self, LoadNodesError};
use crate::table::{ForgetError, NodeTable, PeerKind, RouteRefused, StreamId};
use actor::{Actor, Request};
use stream::NodeStream;

/// Requests that wait for the registry before their senders do.
const QUEUE: usize = 256;

/// What a stream may have waiting. Messages of nodes are few, and there are many nodes.
const SESSION: SessionConfig = SessionConfig {
    slots: SlotLimits {
        deadline: std::time::Duration::from_mins(1),
        drain: std::time::Duration::from_secs(30),
        queue: 8,
    },
    incoming: 2,
    queue: 8,
};

/// The nodes of a system. Clones are handles to the same one.
///
/// The registry ends with [`Registry::shutdown`], or when its last handle and its last stream are
/// gone.
#[derive(Clone, Debug)]
pub struct Registry {
    requests: mpsc::Sender<Request>,
    published: Published,
    limits: RegistryLimits,
    streams: Arc<AtomicU64>,
    public_places: Arc<Semaphore>,
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// It was not given to the node.
    #[error("the command {command} was not given to the node")]
    Refused {
        /// The command.
        command: CommandKind,
        /// Why.
        source: RouteRefused,
    },
    /// The node did not answer. Whether it carried the command out is not known.
    #[error("node {node} did not answer {command}")]
    NoAnswer {
        /// The node.
        node: NodeId,
        /// The command.
        command: CommandKind,
        /// Why.
        source: AskError,
    },
    /// The node carried the command out, but its new state could not be stored yet.
    #[error(
        "node {node} has carried out {command}, but its new state could not be stored; it will be tried again"
    )]
    NotStored {
        /// The node.
        node: NodeId,
        /// The command.
        command: CommandKind,
        /// What the store said.
        source: Arc<StoreError>,
    },
    /// The registry has ended.
    #[error("the command {command} was not carried out: the registry has ended")]
    Ended {
        /// The command.
        command: CommandKind,
    },
}

impl RouteError {
    /// The failure for the `error` field of an answer.
    pub fn to_aos(&self) -> AosError {
        let code = match self {
            Self::Refused { source, .. } => match source {
                RouteRefused::Unknown { .. } => AosCode::NotFound,
                RouteRefused::NotConnected { .. } => AosCode::Failed,
                RouteRefused::WrongState { .. } => AosCode::WrongState,
            },
            Self::NoAnswer { source, .. } => match source {
                AskError::TimedOut { .. } | AskError::NotSent { .. } => AosCode::Timeout,
                AskError::Disconnected | AskError::Stopped => AosCode::EndOfFile,
                AskError::TooMany { .. } => AosCode::NoMemory,
                AskError::TooLong { .. } => AosCode::OutOfRange,
            },
            Self::NotStored { .. } => AosCode::Runtime,
            Self::Ended { .. } => AosCode::Cancelled,
        };
        AosError::new(code, ErrorChain(self).to_string())
    }
}

impl From<&RouteError> for Status {
    fn from(error: &RouteError) -> Self {
        let code = match error {
            RouteError::Refused { source, .. } => match source {
                RouteRefused::Unknown { .. } => Code::NotFound,
                RouteRefused::NotConnected { .. } => Code::Unavailable,
                RouteRefused::WrongState { .. } => Code::FailedPrecondition,
            },
            RouteError::NoAnswer { source, .. } => match source {
                AskError::TimedOut { .. } | AskError::NotSent { .. } => Code::DeadlineExceeded,
                AskError::Disconnected | AskError::Stopped => Code::Unavailable,
                AskError::TooMany { .. } | AskError::TooLong { .. } => Code::ResourceExhausted,
            },
            RouteError::NotStored { .. } => Code::Internal,
            RouteError::Ended { .. } => Code::Unavailable,
        };
        Self::new(code, ErrorChain(error).to_string())
    }
}

/// Why a node was not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetNodeError {
    /// It must not be.
    #[error("the node is kept")]
    Refused(#[source] ForgetError),
    /// That it is gone could not be stored yet.
    #[error("that the node is forgotten could not be stored; it will be tried again")]
    NotStored(#[source] Arc<StoreError>),
    /// The registry has ended.
    #[error("the registry has ended")]
    Ended,
}

impl Registry {
    /// Reads what is stored and starts the registry's task. The store's configuration must include
    /// [`SCHEMA`](crate::SCHEMA).
    ///
    /// `local` carries out commands for the node that this process runs on, which `local_info`
    /// describes. Must be called inside a tokio runtime.
    pub async fn open(
        store: Store,
        local: Arc<dyn NodeCommands>,
        mut local_info: watch::Receiver<NodeInfo>,
        limits: RegistryLimits,
    ) -> Result<Self, LoadNodesError> {
        let info = local_info.borrow_and_update().clone();
        let known = stored::load(&store, &info.node_id, SystemTime::now()).await?;
        let table = NodeTable::new(limits, info, known);
        let (publisher, published) = published(table.records());
        let (requests, queue) = mpsc::channel(QUEUE);
        let actor = Actor::new(table, store, publisher, local, limits, requests.downgrade());
        tokio::spawn(actor.run(queue, local_info));
        Ok(Self {
            requests,
            published,
            limits,
            streams: Arc::default(),
            public_places: Arc::new(Semaphore::new(
                limits.public_streams.min(Semaphore::MAX_PERMITS),
            )),
        })
    }

    /// Takes a stream of `RegisterNode`. The answer is the handler's response; a stream that is
    /// refused once its node is known ends with the reason. Must be called inside a tokio runtime.
    pub fn accept<S>(
        &self,
        inbound: S,
        peer: PeerKind,
    ) -> Result<SessionOutgoing<MainEnd>, JoinRefused>
    where
        S: Stream<Item = Result<wire::IamOutgoingMessages, Status>> + Send + Unpin + 'static,
    {
        let place = match peer {
            PeerKind::Protected { .. } => None,
            PeerKind::Public => {
                let place = Arc::clone(&self.public_places).try_acquire_owned();
                let full = |_| JoinRefused::TooManyStreams {
                    limit: self.limits.public_streams,
                };
                Some(place.map_err(full)?)
            }
        };
        let (session, incoming, outgoing) = session::accept(inbound, SESSION);
        let stream = NodeStream {
            id: StreamId(self.streams.fetch_add(1, Ordering::Relaxed)),
            session,
            requests: self.requests.clone(),
            limits: self.limits,
        };
        tokio::spawn(async move {
            stream.run(peer, incoming).await;
            drop(place);
        });
        Ok(outgoing)
    }

    /// Gives a command to a node and waits for its answer, as long as
    /// [`CommandDeadlines`](crate::CommandDeadlines) say. An empty id is the Main Node's own.
    ///
    /// A command that changes the node's state returns when the change is stored and shown. Dropping
    /// the future takes nothing back.
    pub async fn command(&self, node: &str, command: Command) -> Result<Answer, RouteError> {
        let kind = CommandKind::of(&command);
        let ended = || RouteError::Ended { command: kind };
        let (reply, answer) = oneshot::channel();
        let request = Request::Command {
            node: node.to_owned(),
            command: Box::new(command),
            reply,
        };
        self.requests.send(request).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    /// Forgets a node that is not connected: another may then have its id, also one without a
    /// certificate. Returns when that is stored.
    pub async fn forget(&self, node: &str) -> Result<(), ForgetNodeError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Forget {
            node: node.to_owned(),
            reply,
        };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| ForgetNodeError::Ended)?;
        answer.await.map_err(|_| ForgetNodeError::Ended)?
    }

    /// The ids of all nodes, in order.
    pub fn ids(&self) -> Vec<NodeId> {
        self.published.ids()
    }

    /// What is known of a node. An id that is not one is not known either.
    pub fn info(&self, node: &str) -> Option<NodeRecord> {
        self.published.get(node)
    }

    /// Every node, then every change.
    pub fn subscribe(&self) -> NodeChanges {
        self.published.subscribe()
    }

    /// Closes every stream and ends the registry; what is known is stored before this returns.
    pub async fn shutdown(&self) {
        let (reply, done) = oneshot::channel();
        if self
            .requests
            .send(Request::Shutdown { reply })
            .await
            .is_ok()
        {
            // Without an answer it had ended already.
            let _ = done.await;
        }
    }
}
