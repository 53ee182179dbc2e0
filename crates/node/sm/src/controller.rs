//! The link to the Communication Manager: one stream, its commands, and what is said on it.

mod board;
mod commands;
mod protocol;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::domain::{ConnectionState, SmInfo};
use muster_api::servicemanager::v5 as wire;
use muster_launcher::{Launcher, Reports};
use muster_rpc::{Dial, StreamBuilder, StreamConfig, StreamHandle};
use tokio::sync::watch;

use self::board::Board;
use self::commands::Commands;
pub use self::protocol::SmProtocol;
use crate::seams::{Logs, Monitoring, Networks, NodeConfig};

/// Who carries out what the controller asks for.
#[derive(Debug, Clone)]
pub struct Services {
    /// Runs instances.
    pub launcher: Launcher,
    /// Keeps the node's configuration.
    pub node_config: Arc<dyn NodeConfig>,
    /// Measures.
    pub monitoring: Arc<dyn Monitoring>,
    /// Finds logs.
    pub logs: Arc<dyn Logs>,
    /// Makes networks.
    pub networks: Arc<dyn Networks>,
}

/// A link that reconnects for ever. Dropping it ends the stream.
#[derive(Debug)]
pub struct ControllerLink {
    stream: StreamHandle<SmProtocol>,
    cloud: watch::Receiver<ConnectionState>,
}

impl ControllerLink {
    /// Starts the link: three tasks, which end with the stream or with the launcher.
    ///
    /// Every stream begins with `info` and the state of all instances; what changes follows as it happens.
    pub fn start(
        dial: impl Dial,
        config: StreamConfig,
        info: SmInfo,
        services: Services,
        reports: Reports,
    ) -> Self {
        let board = Arc::new(Board::default());
        let (cloud_out, cloud) = watch::channel(ConnectionState::Disconnected);
        let hello = {
            let board = Arc::clone(&board);
            let info = wire::SmInfo::from(info);
            move || vec![protocol::info(info.clone()), protocol::all(board.all())]
        };
        let (stream, incoming) = StreamBuilder::<SmProtocol>::new(dial, config)
            .hello(hello)
            .start();
        tokio::spawn(board::run(board, reports, stream.clone()));
        let commands = Commands::new(services, stream.clone(), cloud_out);
        tokio::spawn(commands.run(incoming));
        Self { stream, cloud }
    }

    /// Whether the device can reach the cloud, as the controller says; not, without a controller.
    pub fn cloud(&self) -> watch::Receiver<ConnectionState> {
        self.cloud.clone()
    }

    /// The stream, for alerts, logs and measurements.
    pub fn stream(&self) -> &StreamHandle<SmProtocol> {
        &self.stream
    }

    /// Ends the stream, bounded in time.
    pub async fn stop(&self) {
        self.stream.stop().await;
    }
}
