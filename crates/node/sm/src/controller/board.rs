//! The last status of every instance, for the beginning of each stream.

use std::sync::{Arc, Mutex, PoisonError};

use muster_api::domain::InstanceStatus;
use muster_launcher::{Directory, Picture, Report, Reports, enter};
use muster_rpc::{SendError, StreamHandle};

use super::protocol::{self, SmProtocol};

#[derive(Debug, Default)]
pub(super) struct Board {
    statuses: Mutex<Picture>,
}

impl Board {
    /// One that already has what was there before the first report: a stream may begin before that.
    pub(super) fn begin(reports: &Reports) -> Self {
        let board = Self::default();
        board.note(&Report::Settled(reports.first().to_vec()));
        board
    }

    pub(super) fn all(&self) -> Vec<InstanceStatus> {
        let statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        statuses.values().cloned().collect()
    }

    fn note(&self, report: &Report) {
        let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        match report {
            Report::Settled(all) => {
                let all = all.iter().map(|it| (it.instance.clone(), it.clone()));
                *statuses = all.collect();
            }
            Report::Changed(changed) => enter(&mut statuses, changed),
        }
    }
}

/// Passes on what the launcher says. A report that finds no stream is not lost: the next stream begins with all of it.
pub(super) async fn run(
    board: Arc<Board>,
    directory: Directory,
    reports: Reports,
    stream: StreamHandle<SmProtocol>,
) {
    while let Some(report) = reports.next().await {
        board.note(&report);
        let message = match report {
            Report::Changed(changed) => protocol::changed(changed, &directory),
            Report::Settled(all) => protocol::all(all, &directory),
        };
        match stream.send(&message).await {
            Ok(()) => {}
            Err(SendError::Stopped) => return,
            Err(error) => tracing::error!(%error, "cannot tell the controller about instances"),
        }
    }
}
