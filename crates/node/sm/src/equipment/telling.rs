//! What the controller is told without having asked: alerts and measurements.

use std::sync::Arc;

use muster_alert::{AlertId, Outbox};
use muster_api::domain::NodeMonitoring;
use muster_api::servicemanager::v5 as wire;
use muster_monitor::{MonitorHandle, Snapshots};
use muster_node_config::NodeConfig;
use muster_rpc::link::FetchRange;
use muster_rpc::{SendError, Spool, SpoolError, StreamHandle};
use tokio::sync::watch;

use crate::controller::{SmProtocol, protocol};

/// Alerts read at a time at most.
const BATCH: usize = 64;

/// Alerts that wait on disk, as messages of the stream.
#[derive(Debug)]
pub(super) struct AlertSpool(pub(super) Outbox);

impl Spool for AlertSpool {
    fn read(&self, range: FetchRange) -> Result<Vec<(u64, bytes::Bytes)>, SpoolError> {
        let after = AlertId::from_number(range.after);
        let limit = range.messages.min(BATCH);
        let mut bytes = 0;
        let mut batch = Vec::new();
        for (id, alert) in self.0.next_batch_blocking(after, limit)? {
            let message = prost::Message::encode_to_vec(&protocol::alert(alert));
            bytes += message.len();
            if bytes > range.bytes && !batch.is_empty() {
                break;
            }
            batch.push((id.number(), message.into()));
        }
        Ok(batch)
    }

    fn confirm(&self, up_to: u64) -> Result<(), SpoolError> {
        Ok(self.0.confirm_blocking(AlertId::from_number(up_to))?)
    }
}

/// Wakes the stream when there are alerts.
pub(super) async fn offer(mut news: watch::Receiver<AlertId>, stream: StreamHandle<SmProtocol>) {
    loop {
        stream.spool_offered();
        if news.changed().await.is_err() {
            return;
        }
    }
}

/// Sends every measurement. One that finds no stream is gone: the next one comes soon.
pub(super) async fn measurements(mut snapshots: Snapshots, stream: StreamHandle<SmProtocol>) {
    while let Some(snapshot) = snapshots.next().await {
        let instant = wire::InstantMonitoring::from(NodeMonitoring::from(&*snapshot));
        match stream.send(&protocol::instant(instant)).await {
            Ok(()) => {}
            Err(SendError::Stopped) => return,
            Err(error) => tracing::warn!(%error, "cannot send measurements"),
        }
    }
}

/// The node's rules are those of its configuration.
pub(super) async fn follow_rules(
    mut config: watch::Receiver<Arc<NodeConfig>>,
    monitor: MonitorHandle,
) {
    loop {
        let rules = config.borrow_and_update().alert_rules.clone();
        monitor.set_node_rules(rules);
        if config.changed().await.is_err() {
            return;
        }
    }
}
