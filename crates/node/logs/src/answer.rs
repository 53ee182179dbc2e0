//! The way back to whoever asked.

use muster_api::domain::{AosError, LogStatus, fault_to_wire};
use muster_api::servicemanager::v5 as wire;
use tokio::sync::mpsc;

use crate::parts::pack;

/// Takes the parts of one answer. Waits for the receiver, so it is used on a thread that may.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    correlation_id: String,
    parts: mpsc::Sender<wire::LogData>,
}

impl Answer {
    pub(crate) fn new(correlation_id: String, parts: mpsc::Sender<wire::LogData>) -> Self {
        Self {
            correlation_id,
            parts,
        }
    }

    /// Nobody takes parts any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.parts.is_closed()
    }

    /// Sends a part; false when nobody takes it.
    pub(crate) fn send_part(&self, part: u64, part_count: u64, text: &[u8]) -> bool {
        let part = wire::LogData {
            part,
            part_count,
            data: pack(text).into(),
            ..self.only(LogStatus::Ok, None)
        };
        self.parts.blocking_send(part).is_ok()
    }

    /// The answer without a log.
    pub(crate) fn only(&self, status: LogStatus, error: Option<AosError>) -> wire::LogData {
        wire::LogData {
            correlation_id: self.correlation_id.clone(),
            part_count: 1,
            part: 1,
            status: status.to_string(),
            error: error.map(|error| fault_to_wire(Some(error))),
            ..wire::LogData::default()
        }
    }

    /// Sends the answer without a log, from a task.
    pub(crate) async fn send_only(&self, status: LogStatus, error: Option<AosError>) {
        // Whoever asked may have gone.
        let _ = self.parts.send(self.only(status, error)).await;
    }
}
