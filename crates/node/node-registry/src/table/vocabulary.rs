//! What goes into the table and what comes out of it.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use muster_api::domain::{NodeId, NodeInfo, NodeState};

use crate::command::WrongState;
use crate::record::NodeRecord;
use crate::refusal::JoinRefused;

/// When something happened.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Monotonic time since any fixed moment.
    pub now: Duration,
    /// By the clock on the wall, for people.
    pub wall: SystemTime,
}

/// One stream of `RegisterNode`; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// How a peer that opens a stream is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// Not at all: it came to the public port. Only unprovisioned nodes may.
    Public,
    /// By its certificate, on the protected port.
    Protected {
        /// The node that the certificate names.
        node: muster_tls::NodeId,
    },
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The node that the registry runs on changed.
    Local(NodeInfo),
    /// A stream said whose it is.
    Join {
        /// Which stream.
        stream: StreamId,
        /// How its peer is known.
        peer: PeerKind,
        /// What it said.
        info: NodeInfo,
    },
    /// A stream described its node again.
    Info {
        /// Which stream.
        stream: StreamId,
        /// The description.
        info: NodeInfo,
    },
    /// A stream ended.
    Left {
        /// Which stream.
        stream: StreamId,
    },
    /// The outcome of [`Effect::Probe`].
    Probed {
        /// Which stream.
        stream: StreamId,
        /// Whether it answered.
        answers: bool,
    },
    /// A command was given to a stream.
    Began {
        /// Which stream.
        stream: StreamId,
    },
    /// A command was answered or given up.
    Ended {
        /// Whose command.
        node: NodeId,
        /// Which stream it was given to.
        stream: StreamId,
        /// The state that the node has by its answer.
        state: Option<NodeState>,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The stream is the node's from now on.
    Admit {
        /// Which stream.
        stream: StreamId,
        /// Whose.
        node: NodeId,
    },
    /// Close the stream, with the reason. Nothing of it counts any more.
    Close(StreamId, JoinRefused),
    /// Find out whether the stream still answers, and report [`Event::Probed`].
    Probe(StreamId),
}

/// What to store at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Nodes to remove, before the others are stored.
    pub forget: BTreeSet<NodeId>,
    /// Nodes to store.
    pub store: Vec<NodeRecord>,
    /// The Main Node, which is only shown: it stores its own state.
    pub local: Vec<NodeRecord>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.forget.is_empty() && self.store.is_empty() && self.local.is_empty()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &NodeRecord> {
        self.store.iter().chain(&self.local)
    }
}

/// What observers get to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// A node is now like this.
    Changed(NodeRecord),
    /// There is no such node any more.
    Forgotten(NodeId),
}

/// Where a command goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the node that the registry runs on.
    Local {
        /// Which node that is.
        node: NodeId,
    },
    /// To a node's stream.
    Stream {
        /// Which node.
        node: NodeId,
        /// Its stream.
        stream: StreamId,
    },
}

/// Why a command goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteRefused {
    /// There is no such node.
    #[error("there is no node {node:?}")]
    Unknown {
        /// The id.
        node: String,
    },
    /// The node has no stream.
    #[error("node {node} is not connected")]
    NotConnected {
        /// The node.
        node: NodeId,
    },
    /// The command makes no sense for the node now.
    #[error("node {node} is in the wrong state")]
    WrongState {
        /// The node.
        node: NodeId,
        /// Which command in which state.
        source: WrongState,
    },
}

/// Why a node is not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// There is no such node.
    #[error("there is no node {node:?} to forget")]
    Unknown {
        /// The id.
        node: String,
    },
    /// It is the one that the registry runs on.
    #[error("node {node} is the Main Node and cannot be forgotten")]
    IsMainNode {
        /// The node.
        node: NodeId,
    },
    /// It is connected.
    #[error("node {node} is connected and cannot be forgotten")]
    Connected {
        /// The node.
        node: NodeId,
    },
}
