//! Why a stream is not, or no longer, taken as a node's.

use std::time::Duration;

use muster_api::domain::{ConvertError, NodeId};
use tonic::Status;

/// Why a stream was refused or ended. The peer gets the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamRefused {
    /// Nothing was said.
    #[error("the stream did not begin with SMInfo within {within:?}")]
    NoHello {
        /// The time given.
        within: Duration,
    },
    /// Something else was said.
    #[error("the stream began with {found} instead of SMInfo")]
    NotHello {
        /// What it began with.
        found: &'static str,
    },
    /// The node's description of itself makes no sense.
    #[error("the node's SMInfo is invalid: {problem}")]
    InvalidInfo {
        /// What is wrong.
        problem: ConvertError,
    },
    /// The certificate names another node.
    #[error("node {claimed} was claimed with a certificate of node {certified}")]
    OtherCertificate {
        /// Who the peer says it is.
        claimed: NodeId,
        /// Who its certificate says it is.
        certified: NodeId,
    },
    /// A stream changed its mind about whose it is.
    #[error("the stream of node {node} cannot become the one of node {claimed}")]
    OtherNode {
        /// Whose stream it is.
        node: NodeId,
        /// Who it claims to be now.
        claimed: NodeId,
    },
    /// What arrived is not what the method carries, or is too long.
    #[error("the node sent something that cannot be decoded: {problem}")]
    Undecodable {
        /// What the decoder said.
        problem: String,
    },
    /// Too many messages that make no sense.
    #[error(
        "the node sent more messages without sense than are tolerated, the last one: {problem}"
    )]
    Nonsense {
        /// What is wrong with the last one.
        problem: String,
    },
    /// The node does not read, or far too slowly.
    #[error("something has waited {waited:?} for the node to take what came before it")]
    Stalled {
        /// How long.
        waited: Duration,
    },
    /// The node is kept out.
    #[error("node {node} misbehaved and is kept out for another {rest:?}")]
    Quarantined {
        /// The node.
        node: NodeId,
        /// How long.
        rest: Duration,
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
    /// The controller ends.
    #[error("the controller is shutting down")]
    Stopping,
}

impl StreamRefused {
    /// Whether the node is kept out for a while, for having done this.
    pub(crate) fn is_offence(&self) -> bool {
        match self {
            Self::NotHello { .. }
            | Self::InvalidInfo { .. }
            | Self::OtherCertificate { .. }
            | Self::OtherNode { .. }
            | Self::Undecodable { .. }
            | Self::Nonsense { .. }
            | Self::Stalled { .. } => true,
            Self::NoHello { .. }
            | Self::Quarantined { .. }
            | Self::AlreadyConnected { .. }
            | Self::Replaced { .. }
            | Self::Stopping => false,
        }
    }

    /// Whether somebody should look at it. A node that comes back, or that is kept out anyway, is no news.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Quarantined { .. } | Self::Replaced { .. } | Self::Stopping
        )
    }
}

impl From<&StreamRefused> for Status {
    fn from(refused: &StreamRefused) -> Self {
        let text = refused.to_string();
        match refused {
            StreamRefused::NoHello { .. } => Self::deadline_exceeded(text),
            StreamRefused::NotHello { .. }
            | StreamRefused::InvalidInfo { .. }
            | StreamRefused::OtherNode { .. }
            | StreamRefused::Undecodable { .. }
            | StreamRefused::Nonsense { .. } => Self::invalid_argument(text),
            StreamRefused::OtherCertificate { .. } => Self::permission_denied(text),
            StreamRefused::Stalled { .. } | StreamRefused::Quarantined { .. } => {
                Self::resource_exhausted(text)
            }
            StreamRefused::AlreadyConnected { .. } => Self::already_exists(text),
            StreamRefused::Replaced { .. } => Self::aborted(text),
            StreamRefused::Stopping => Self::unavailable(text),
        }
    }
}
