//! Answers requests.

use std::sync::Arc;

use muster_alert::InstanceUnits;
use muster_api::domain::{AosCode, AosError, LogStatus, fault_to_wire};
use muster_api::servicemanager::v5 as wire;
use tokio::sync::{Semaphore, mpsc};

use crate::request::LogRequest;
use crate::settings::LogSettings;

/// Finds logs. Clones share the bound on requests at a time.
#[derive(Debug, Clone)]
pub struct LogCollector {
    settings: Arc<LogSettings>,
    units: Arc<dyn InstanceUnits>,
    turns: Arc<Semaphore>,
}

impl LogCollector {
    /// A collector.
    #[must_use]
    pub fn new(settings: LogSettings, units: Arc<dyn InstanceUnits>) -> Self {
        let turns = Arc::new(Semaphore::new(settings.parallel.max(1)));
        Self {
            settings: Arc::new(settings),
            units,
            turns,
        }
    }

    /// Sends the parts of the answer; gives up when nobody takes them any more.
    pub async fn collect(&self, request: LogRequest, parts: mpsc::Sender<wire::LogData>) {
        let Ok(_turn) = self.turns.acquire().await else {
            return;
        };
        let error = AosError::new(
            AosCode::NotSupported,
            format!("no logs in {:?} of {:?}", self.settings.dirs, self.units),
        );
        let part = wire::LogData {
            correlation_id: request.correlation_id().to_owned(),
            part_count: 1,
            part: 1,
            status: LogStatus::Error.to_string(),
            error: Some(fault_to_wire(Some(error))),
            ..wire::LogData::default()
        };
        // Whoever asked may have gone.
        let _ = parts.send(part).await;
    }
}
