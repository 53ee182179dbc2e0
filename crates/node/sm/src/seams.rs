//! Parts of a node that commands of the controller are for: node configuration, monitoring, logs, networks.

use std::fmt;

use futures_util::future::BoxFuture;
use muster_api::domain::NodeConfigStatus;
use muster_api::servicemanager::v5 as wire;
use muster_logs::LogCollector;
pub use muster_logs::LogRequest;
use muster_monitor::MonitorHandle;
use muster_node_config::NodeConfigKeeper;
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

impl NodeConfig for NodeConfigKeeper {
    fn status(&self) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { NodeConfigKeeper::status(self) })
    }

    fn check(&self, version: String, config: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async move { NodeConfigKeeper::check(self, &version, &config) })
    }

    fn set(&self, version: String, config: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(NodeConfigKeeper::set(self, version, config))
    }
}

impl Monitoring for MonitorHandle {
    /// Before the first measurement there is nothing to tell, and numbers would be a lie.
    fn average(&self) -> BoxFuture<'_, wire::AverageMonitoring> {
        Box::pin(async {
            let average = MonitorHandle::average(self);
            average.map(Into::into).unwrap_or_default()
        })
    }
}

impl Logs for LogCollector {
    fn collect(
        &self,
        request: LogRequest,
        parts: mpsc::Sender<wire::LogData>,
    ) -> BoxFuture<'_, ()> {
        Box::pin(LogCollector::collect(self, request, parts))
    }
}
