//! Answers requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_alert::InstanceUnits;
use muster_api::domain::{AosError, LogStatus};
use muster_api::servicemanager::v5 as wire;
use muster_journal::{Journal, Matches};
use muster_telemetry::ErrorChain;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

use crate::answer::Answer;
use crate::crash;
use crate::error::CollectError;
use crate::request::LogRequest;
use crate::scan::{send_lines, send_text};
use crate::settings::LogSettings;
use crate::wanted::{Meant, Range, lines_of};

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
        let answer = Answer::new(request.correlation_id().to_owned(), parts.clone());
        let turn = tokio::select! {
            turn = self.turns.acquire() => turn,
            () = parts.closed() => return,
        };
        let Ok(_turn) = turn else {
            return;
        };
        let (settings, units) = (Arc::clone(&self.settings), Arc::clone(&self.units));
        let sent = {
            let answer = answer.clone();
            spawn_blocking(move || search(request, &settings, &*units, &answer))
        };
        let (status, error) = match sent.await.unwrap_or(Err(CollectError::Ended)) {
            Ok(Sent::Parts) => return,
            Ok(Sent::Nothing) => (LogStatus::Empty, None),
            Ok(Sent::NoSuchInstance) => (LogStatus::Absent, None),
            Err(error) => {
                let text = ErrorChain(&error).to_string();
                tracing::warn!(error = text, "a request for logs failed");
                (LogStatus::Error, Some(AosError::new(error.code(), text)))
            }
        };
        answer.send_only(status, error).await;
    }
}

/// What has been answered.
enum Sent {
    Parts,
    Nothing,
    NoSuchInstance,
}

fn search(
    request: LogRequest,
    settings: &LogSettings,
    units: &dyn InstanceUnits,
    answer: &Answer,
) -> Result<Sent, CollectError> {
    let (filter, is_crash, range) = match request {
        LogRequest::System(request) => (None, false, Range::new(request.from, request.till)?),
        LogRequest::Instance(request) => (
            Some(Meant::new(request.filter, units)?),
            false,
            Range::new(request.from, request.till)?,
        ),
        LogRequest::Crash(request) => (
            Some(Meant::new(request.filter, units)?),
            true,
            Range::new(request.from, request.till)?,
        ),
    };
    let mut journal = open(&settings.dirs, range)?;
    let found = match filter {
        None => send_lines(&mut journal, Matches::new(), range, settings, answer),
        Some(meant) => {
            let units = meant.units(&journal).map_err(CollectError::Read)?;
            if units.is_empty() {
                return Ok(match meant.is_known {
                    true => Sent::Nothing,
                    false => Sent::NoSuchInstance,
                });
            }
            match is_crash {
                false => send_lines(&mut journal, lines_of(&units), range, settings, answer),
                true => crash::text(&mut journal, &units, range, settings, answer).map(|text| {
                    send_text(&text, settings, answer);
                    !text.is_empty()
                }),
            }
        }
    };
    Ok(match found.map_err(CollectError::Read)? {
        true => Sent::Parts,
        false => Sent::Nothing,
    })
}

/// The files that can have entries of the wanted time.
fn open(dirs: &[PathBuf], range: Range) -> Result<Journal, CollectError> {
    let paths: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let mut journal = Journal::open_dirs(&paths).map_err(CollectError::Open)?;
    journal.retain_files(|file| range.touches(file));
    journal.release_memory();
    Ok(journal)
}
