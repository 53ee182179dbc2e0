//! Why a stream is not, or no longer, taken as a node's.

use std::time::Duration;

use muster_api::domain::{ConvertError, NodeId, NodeState};
use tonic::Status;

/// Why a stream was refused or closed. The peer gets the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// As many unauthenticated peers as allowed are connected.
    #[error(
        "there are {limit} unprovisioned nodes connected, which is as many as allowed; try again later"
    )]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// Unauthenticated peers join faster than allowed.
    #[error("unprovisioned nodes join faster than allowed; try again later")]
    TooFast,
    /// Nothing was said.
    #[error("the stream did not begin with a node's description within {within:?}")]
    NoHello {
        /// The time given.
        within: Duration,
    },
    /// The description is no description of a node.
    #[error("the node's description is invalid: {problem}")]
    InvalidInfo {
        /// What is wrong.
        problem: ConvertError,
    },
    /// The description is too long.
    #[error("the node's description has {len} bytes, more than the {limit} allowed")]
    InfoTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// The certificate names another node.
    #[error("node {claimed} was claimed with a certificate of node {certified}")]
    OtherCertificate {
        /// Who the peer says it is.
        claimed: NodeId,
        /// Who its certificate says it is.
        certified: String,
    },
    /// A stream changed its mind about whose it is.
    #[error("the stream of node {node} cannot become the one of node {claimed}")]
    OtherNode {
        /// Whose stream it is.
        node: NodeId,
        /// Who it claims to be now.
        claimed: NodeId,
    },
    /// The id of the Main Node itself.
    #[error("node {node} is the Main Node itself; give this node another id")]
    IsMainNode {
        /// The id.
        node: NodeId,
    },
    /// A node that is more than unprovisioned belongs on the protected port.
    #[error("node {node} is {state}: it joins on the protected port, with its certificate")]
    NeedsCertificate {
        /// The node.
        node: NodeId,
        /// What it says of itself.
        state: NodeState,
    },
    /// An unauthenticated peer claims the id of a member.
    #[error(
        "node {node} is known as {known}: it joins on the protected port, with its certificate; \
         if it has lost that, have the Main Node forget it first"
    )]
    IsMember {
        /// The node.
        node: NodeId,
        /// What is known of it.
        known: NodeState,
    },
    /// There is such a node, and it answers.
    #[error("there is a node {node} already, and it is connected; two nodes cannot have one id")]
    AlreadyConnected {
        /// The id.
        node: NodeId,
    },
    /// A later stream of the node took over.
    #[error("another stream of node {node} has taken this one's place")]
    Replaced {
        /// The node.
        node: NodeId,
    },
    /// The node's new state belongs on the other port.
    #[error("node {node} is now {state}: it joins again on the {port} port")]
    Moved {
        /// The node.
        node: NodeId,
        /// Its new state.
        state: NodeState,
        /// Where it joins.
        port: &'static str,
    },
    /// The registry ends.
    #[error("the Main Node's registry is shutting down")]
    ShuttingDown,
}

impl From<&JoinRefused> for Status {
    fn from(refused: &JoinRefused) -> Self {
        let text = refused.to_string();
        match refused {
            JoinRefused::TooManyStreams { .. } | JoinRefused::TooFast => {
                Self::resource_exhausted(text)
            }
            JoinRefused::NoHello { .. } => Self::deadline_exceeded(text),
            JoinRefused::InvalidInfo { .. }
            | JoinRefused::InfoTooLong { .. }
            | JoinRefused::OtherNode { .. } => Self::invalid_argument(text),
            JoinRefused::OtherCertificate { .. } | JoinRefused::IsMember { .. } => {
                Self::permission_denied(text)
            }
            JoinRefused::IsMainNode { .. } | JoinRefused::AlreadyConnected { .. } => {
                Self::already_exists(text)
            }
            JoinRefused::NeedsCertificate { .. } | JoinRefused::Moved { .. } => {
                Self::failed_precondition(text)
            }
            JoinRefused::Replaced { .. } => Self::aborted(text),
            JoinRefused::ShuttingDown => Self::unavailable(text),
        }
    }
}
