//! The link to the Communication Manager: one stream, its commands, and what is said on it.

mod board;
mod commands;
mod orders;
pub(crate) mod protocol;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::domain::{ConnectionState, SmInfo};
use muster_api::servicemanager::v5 as wire;
use muster_launcher::{Launcher, Reports};
use muster_rpc::{Dial, SendError, Spool, StreamBuilder, StreamConfig, StreamHandle};
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

fn announcement(info: &watch::Receiver<SmInfo>) -> wire::SmOutgoingMessages {
    protocol::info(info.borrow().clone().into())
}

/// Tells what has changed about the node since the stream began.
async fn announce(mut info: watch::Receiver<SmInfo>, stream: StreamHandle<SmProtocol>) {
    info.mark_unchanged();
    while info.changed().await.is_ok() {
        info.mark_unchanged();
        match stream.send(&announcement(&info)).await {
            Ok(()) => {}
            Err(SendError::Stopped) => return,
            Err(error) => tracing::error!(%error, "cannot announce what changed about the node"),
        }
    }
}

/// A link that reconnects for ever. Dropping it ends the stream.
#[derive(Debug)]
pub struct ControllerLink {
    stream: StreamHandle<SmProtocol>,
    cloud: watch::Receiver<ConnectionState>,
}

impl ControllerLink {
    /// Starts the link: five tasks, which end with the stream or with the launcher.
    ///
    /// Every stream begins with `info` and the state of all instances; what changes follows as it happens. `alerts` are kept
    /// by their owner until they have arrived. The launcher hears from here whom the node reaches.
    pub fn start(
        dial: impl Dial,
        config: StreamConfig,
        info: watch::Receiver<SmInfo>,
        services: Services,
        reports: Reports,
        alerts: Option<Arc<dyn Spool>>,
    ) -> Self {
        let board = Arc::new(Board::begin(&reports));
        let directory = services.launcher.directory().clone();
        let hello = {
            let board = Arc::clone(&board);
            let (info, directory) = (info.clone(), directory.clone());
            move || {
                let all = protocol::all(board.all(), &directory);
                vec![announcement(&info), all]
            }
        };
        let mut builder = StreamBuilder::<SmProtocol>::new(dial, config).hello(hello);
        if let Some(alerts) = alerts {
            builder = builder.spool(alerts);
        }
        let (stream, incoming) = builder.start();
        tokio::spawn(announce(info, stream.clone()));
        tokio::spawn(board::run(board, directory, reports, stream.clone()));
        let commands = Commands::new(services, stream.clone());
        let cloud = commands.cloud();
        tokio::spawn(commands.run(incoming));
        Self { stream, cloud }
    }

    /// Whether the device reaches the cloud, as the controller says; not, without a controller.
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
