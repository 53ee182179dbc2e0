//! Parts of a node that commands of the controller are for: node configuration, monitoring, logs, networks.
//!
//! [`Absent`] answers for a node that does not have them: with an error where the wire has room for one, so that nobody waits.

use std::fmt;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, AosError, NodeConfigState, NodeConfigStatus, fault_to_wire};
use muster_api::servicemanager::v5 as wire;
use tokio::sync::mpsc;

/// The node's configuration.
pub trait NodeConfig: Send + Sync + fmt::Debug + 'static {
    /// What is installed.
    fn status(&self) -> BoxFuture<'_, NodeConfigStatus>;
    /// Whether this would be taken.
    fn check(&self, version: String, config: String) -> BoxFuture<'_, NodeConfigStatus>;
    /// Takes it.
    fn set(&self, version: String, config: String) -> BoxFuture<'_, NodeConfigStatus>;
}

/// What is measured.
pub trait Monitoring: Send + Sync + fmt::Debug + 'static {
    /// The averages of now.
    fn average(&self) -> BoxFuture<'_, wire::AverageMonitoring>;
}

/// A request for logs.
#[derive(Debug, Clone, PartialEq)]
pub enum LogRequest {
    /// The node's own.
    System(wire::SystemLogRequest),
    /// Of instances.
    Instance(wire::InstanceLogRequest),
    /// Of failures of instances.
    Crash(wire::InstanceCrashLogRequest),
}

impl LogRequest {
    /// What every part of the answer repeats.
    pub fn correlation_id(&self) -> &str {
        match self {
            Self::System(request) => &request.correlation_id,
            Self::Instance(request) => &request.correlation_id,
            Self::Crash(request) => &request.correlation_id,
        }
    }
}

/// Finds logs.
pub trait Logs: Send + Sync + fmt::Debug + 'static {
    /// Sends the parts into `parts`; gives up when nobody takes them any more.
    fn collect(&self, request: LogRequest, parts: mpsc::Sender<wire::LogData>)
    -> BoxFuture<'_, ()>;
}

/// The networks of the node.
pub trait Networks: Send + Sync + fmt::Debug + 'static {
    /// From now on exactly these.
    fn update(&self, networks: wire::UpdateNetworks) -> BoxFuture<'_, ()>;
}

/// A part that this node does not have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Absent;

fn not_supported(what: &str) -> AosError {
    AosError::new(
        AosCode::NotSupported,
        format!("the service manager of this node has no {what}"),
    )
}

impl Absent {
    fn refuse(version: String) -> NodeConfigStatus {
        NodeConfigStatus {
            state: NodeConfigState::Failed,
            version,
            error: Some(not_supported("node configuration")),
        }
    }
}

impl NodeConfig for Absent {
    fn status(&self) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async {
            NodeConfigStatus {
                state: NodeConfigState::Absent,
                version: String::new(),
                error: None,
            }
        })
    }

    fn check(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { Self::refuse(version) })
    }

    fn set(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { Self::refuse(version) })
    }
}

impl Monitoring for Absent {
    /// Nothing was measured: the wire has no error here, and numbers would be a lie.
    fn average(&self) -> BoxFuture<'_, wire::AverageMonitoring> {
        Box::pin(async { wire::AverageMonitoring::default() })
    }
}

impl Logs for Absent {
    fn collect(
        &self,
        request: LogRequest,
        parts: mpsc::Sender<wire::LogData>,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let part = wire::LogData {
                correlation_id: request.correlation_id().to_owned(),
                part_count: 1,
                part: 1,
                status: "error".into(),
                error: Some(fault_to_wire(Some(not_supported("logs")))),
                ..wire::LogData::default()
            };
            // Whoever asked may have gone.
            let _ = parts.send(part).await;
        })
    }
}

impl Networks for Absent {
    fn update(&self, networks: wire::UpdateNetworks) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !networks.networks.is_empty() {
                let count = networks.networks.len();
                tracing::warn!(
                    count,
                    "networks are not made: this node has no network manager"
                );
            }
        })
    }
}
