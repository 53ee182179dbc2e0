//! What the rest of the Communication Manager asks of nodes. [`SmController`](crate::SmController) is all of these.
//!
//! A command is settled exactly once: with the node's answer, or with why there is none. A command without an answer on the wire
//! is settled when the node's stream has taken it; what becomes of it is told to the receivers, and when the stream breaks the
//! node's next one begins with its whole state.

use std::fmt;

use futures_util::future::BoxFuture;
use muster_api::domain::{
    ConvertError, InstanceFilter, InstanceIdent, InstanceInfo, NodeConfigStatus, NodeId,
    NodeMonitoring, Timestamp,
};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::slots::AskError;

/// What a node can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// `GetNodeConfigStatus`
    GetNodeConfigStatus,
    /// `CheckNodeConfig`
    CheckNodeConfig,
    /// `SetNodeConfig`
    SetNodeConfig,
    /// `UpdateInstances`
    UpdateInstances,
    /// `GetAverageMonitoring`
    GetAverageMonitoring,
    /// `UpdateNetworks`
    UpdateNetworks,
    /// `SystemLogRequest`
    SystemLogRequest,
    /// `InstanceLogRequest`
    InstanceLogRequest,
    /// `InstanceCrashLogRequest`
    InstanceCrashLogRequest,
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a command was not answered, or not even given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeCommandError {
    /// No such node is connected.
    #[error("{command}: node {node} is not connected")]
    NotFound {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
    },
    /// There is no answer.
    #[error("{command}: node {node} did not answer")]
    NoAnswer {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
        /// Why.
        source: AskError,
    },
    /// The answer makes no sense.
    #[error("{command}: the answer of node {node} is invalid")]
    InvalidAnswer {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
        /// What is wrong with it.
        source: ConvertError,
    },
    /// The stream ended before it took the command.
    #[error("{command}: node {node} disconnected")]
    Disconnected {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
    },
    /// The node reads nothing, and was cut off.
    #[error("{command}: node {node} takes no commands")]
    Stalled {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
    },
    /// The command is longer than a node takes.
    #[error(
        "{command}: the command for node {node} has {len} bytes, more than the {limit} allowed"
    )]
    TooLong {
        /// The node.
        node: NodeId,
        /// What was asked.
        command: CommandKind,
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
}

/// The result of a command.
pub type Commanded<'a, T> = BoxFuture<'a, Result<T, NodeCommandError>>;

/// The configurations of nodes.
pub trait NodeConfigs: Send + Sync + fmt::Debug + 'static {
    /// What is installed on the node.
    fn node_config_status(&self, node: &NodeId) -> Commanded<'_, NodeConfigStatus>;
    /// Whether the node would take this.
    fn check_node_config(
        &self,
        node: &NodeId,
        version: String,
        config: String,
    ) -> Commanded<'_, NodeConfigStatus>;
    /// Has the node take this.
    fn set_node_config(
        &self,
        node: &NodeId,
        version: String,
        config: String,
    ) -> Commanded<'_, NodeConfigStatus>;
}

/// Runs instances on nodes.
pub trait InstanceRunner: Send + Sync + fmt::Debug + 'static {
    /// From now on exactly `start` runs on the node; `stop` is what ran and is not wanted any more.
    fn update_instances(
        &self,
        node: &NodeId,
        start: Vec<InstanceInfo>,
        stop: Vec<InstanceIdent>,
    ) -> Commanded<'_, ()>;
}

/// Measurements of nodes on request.
pub trait MonitoringProvider: Send + Sync + fmt::Debug + 'static {
    /// The averages of the node and its instances.
    fn average_monitoring(&self, node: &NodeId) -> Commanded<'_, NodeMonitoring>;
}

/// The networks of nodes.
pub trait NodeNetworks: Send + Sync + fmt::Debug + 'static {
    /// From now on the node has exactly these.
    fn update_networks(
        &self,
        node: &NodeId,
        networks: Vec<wire::UpdateNetworkParameters>,
    ) -> Commanded<'_, ()>;
}

/// Which part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// Repeated in every part of the answer.
    pub correlation_id: String,
    /// Nothing: from the oldest entry.
    pub from: Option<Timestamp>,
    /// Nothing: up to now.
    pub till: Option<Timestamp>,
}

/// The logs of nodes. The parts come to the [`LogReceiver`](crate::LogReceiver).
pub trait LogProvider: Send + Sync + fmt::Debug + 'static {
    /// The node's own log.
    fn system_log(&self, node: &NodeId, query: LogQuery) -> Commanded<'_, ()>;
    /// The logs of instances.
    fn instance_log(
        &self,
        node: &NodeId,
        filter: InstanceFilter,
        query: LogQuery,
    ) -> Commanded<'_, ()>;
    /// What instances logged around their last crash.
    fn instance_crash_log(
        &self,
        node: &NodeId,
        filter: InstanceFilter,
        query: LogQuery,
    ) -> Commanded<'_, ()>;
}
