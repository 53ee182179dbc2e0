//! What commands of a run wrote, with times: files of JSON lines, bounded, the oldest going first.
//!
//! A run has a folder with files `log-POSITION.jsonl`, where the position counts the bytes before it since the run began.
//! Positions stay valid when old files are gone, and across restarts.

mod files;
#[cfg(test)]
mod tests;
mod written;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_lifecycle::Moment;
use muster_provider::Clock;
use muster_telemetry::ErrorChain;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use self::files::LogFiles;
pub(crate) use self::files::read;
use self::written::Characters;
use crate::job::{Job, Slot};
use crate::run::RunId;
use crate::settings::Settings;

/// How many records wait before whoever writes does.
const QUEUE: usize = 64;
/// The longest text of one record, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;

/// Where a text came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stream {
    /// A command's standard output.
    Stdout,
    /// A command's standard error.
    Stderr,
    /// The orchestrator itself.
    Note,
}

/// A piece of a run's log. Pieces of one stream put together are what the command wrote, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRecord {
    /// When it came.
    pub at: Moment,
    /// From which machine.
    pub slot: Slot,
    /// In which step; none before steps and after them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Box<str>>,
    /// From where.
    pub stream: Stream,
    /// What, if that is UTF-8.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What, if it is not; there is no text then.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "written")]
    pub bytes: Vec<u8>,
    /// Where to go on after it, once it was read.
    #[serde(skip)]
    pub next: u64,
}

impl LogRecord {
    /// What was written.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        match self.bytes.is_empty() {
            true => self.text.as_bytes(),
            false => &self.bytes,
        }
    }
}

/// A part of a run's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPage {
    /// What there is, in order.
    pub records: Vec<LogRecord>,
    /// Where to go on.
    pub next: u64,
    /// How many bytes between the wanted position and the first record are gone, because the log was too long.
    pub lost: u64,
    /// Whether there is more already.
    pub more: bool,
}

#[derive(Debug)]
enum Message {
    Record(LogRecord),
    /// Answered when everything before it is in its file.
    Flush(oneshot::Sender<()>),
}

/// The folder of a run's log.
pub(crate) fn folder(settings: &Settings, run: &RunId) -> PathBuf {
    settings.folder.join(run.as_str())
}

/// Writes one run's log. A log that cannot be written holds no run up: what is lost is counted and reported.
#[derive(Debug, Clone)]
pub(crate) struct RunLog {
    sender: mpsc::Sender<Message>,
    clock: Arc<dyn Clock>,
}

impl RunLog {
    /// The handle, and the writer, which ends when all handles are gone. `grew` counts up with each write.
    pub(crate) fn open(
        settings: &Settings,
        run: &RunId,
        clock: Arc<dyn Clock>,
        grew: watch::Sender<u64>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, inbox) = mpsc::channel(QUEUE);
        let files = LogFiles::new(folder(settings, run), settings.log_file, settings.log_files);
        (Self { sender, clock }, write(files, inbox, grew))
    }

    /// For one job's words.
    pub(crate) fn of(&self, job: &Job) -> JobLog {
        JobLog {
            log: self.clone(),
            slot: job.slot().clone(),
            step: job.step().map(Into::into),
            stdout: Characters::default(),
            stderr: Characters::default(),
        }
    }
}

/// Writes what a job says into its run's log.
#[derive(Debug)]
pub(crate) struct JobLog {
    log: RunLog,
    slot: Slot,
    step: Option<Box<str>>,
    stdout: Characters,
    stderr: Characters,
}

impl JobLog {
    /// Says something of our own.
    pub(crate) async fn note(&self, text: impl Into<String>) {
        let mut text = text.into();
        text.push('\n');
        self.send(Stream::Note, text.into_bytes()).await;
    }

    /// Takes what a command wrote.
    pub(crate) async fn write(&mut self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.chunks(LONGEST_TEXT) {
            let written = match stream {
                Stream::Stderr => self.stderr.take(piece),
                Stream::Stdout | Stream::Note => self.stdout.take(piece),
            };
            self.send(stream, written).await;
        }
    }

    /// A command ended: what looked like the beginning of a character was none.
    pub(crate) async fn end(&mut self) {
        let rest = self.stdout.rest();
        self.send(Stream::Stdout, rest).await;
        let rest = self.stderr.rest();
        self.send(Stream::Stderr, rest).await;
    }

    async fn send(&self, stream: Stream, written: Vec<u8>) {
        if written.is_empty() {
            return;
        }
        let (text, bytes) = match String::from_utf8(written) {
            Ok(text) => (text, Vec::new()),
            Err(error) => (String::new(), error.into_bytes()),
        };
        let record = LogRecord {
            at: self.log.clock.now(),
            slot: self.slot.clone(),
            step: self.step.clone(),
            stream,
            text,
            bytes,
            next: 0,
        };
        // The writer lives as long as its run.
        let _ = self.log.sender.send(Message::Record(record)).await;
    }

    /// Waits until everything is in its file, so that whoever hears of the job's end can read it.
    pub(crate) async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        if self.log.sender.send(Message::Flush(sender)).await.is_ok() {
            let _ = done.await;
        }
    }
}

async fn write(mut files: LogFiles, mut inbox: mpsc::Receiver<Message>, grew: watch::Sender<u64>) {
    let mut batch = Vec::new();
    let mut lost = 0_u64;
    while inbox.recv_many(&mut batch, QUEUE).await > 0 {
        let mut flushed = Vec::new();
        let mut lines = Vec::new();
        let mut records = 0;
        for message in batch.drain(..) {
            match message {
                Message::Record(record) => {
                    records += 1;
                    serde_json::to_writer(&mut lines, &record)
                        .expect("texts and numbers can be written");
                    lines.push(b'\n');
                }
                Message::Flush(done) => flushed.push(done),
            }
        }
        if records > 0 {
            // Without its thread the runtime is at its end, and so is the manager.
            let Some((returned, written)) = append(files, lines).await else {
                return;
            };
            files = returned;
            match written {
                Ok(()) => grew.send_modify(|count| *count += 1),
                Err(error) => {
                    lost += records;
                    let folder = files.folder().display();
                    tracing::error!(%folder, lost, error = %ErrorChain(&error), "a log cannot be written");
                }
            }
        }
        for done in flushed {
            // Whoever waited may have gone.
            let _ = done.send(());
        }
    }
}

/// Writes on a thread of its own: a slow disk holds nobody else up.
async fn append(mut files: LogFiles, lines: Vec<u8>) -> Option<(LogFiles, io::Result<()>)> {
    let work = tokio::task::spawn_blocking(move || {
        let written = files.append(&lines);
        (files, written)
    });
    work.await.ok()
}

/// Removes a run's log; there need be none.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
