//! The helper processes: started when they are needed, asked one thing at a time, ended when they do not answer.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

use crate::protocol::{self, Failure, Hello, LineError, Reply, Request};
use crate::settings::Settings;

/// How long a helper may take to say its first word.
const HELLO: Duration = Duration::from_secs(30);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("cannot start the helper {program}")]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the helper {program} speaks version {found} of its protocol, not {}",
        protocol::VERSION
    )]
    Version { program: PathBuf, found: u32 },
    #[error("the helper ended in the middle of a call")]
    Ended(#[source] std::io::Error),
    #[error("the helper was ended, because libvirt did not answer within {0:?}")]
    Late(Duration),
    #[error("the helper said what it should not")]
    Line(#[source] LineError),
    #[error("the helper answered something else than it was asked")]
    Answer,
    #[error("it refused")]
    Refused(#[source] Failure),
}

/// A helper that waits for a question.
#[derive(Debug)]
struct Helper {
    // Killed when dropped.
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// All helpers.
#[derive(Debug)]
pub(crate) struct Helpers {
    program: PathBuf,
    uri: String,
    call: Duration,
    save: Duration,
    at_once: Semaphore,
    /// One is kept for the next call; a rush's others are let go.
    idle: Mutex<Option<Helper>>,
}

impl Helpers {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            program: settings.helper.clone(),
            uri: settings.uri.clone(),
            call: settings.call,
            save: settings.save,
            at_once: Semaphore::new(settings.helpers.get()),
            idle: Mutex::new(None),
        }
    }

    /// Asks a question. Whoever stops waiting for the answer ends the helper, and the call with it.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Reply, CallError> {
        let _permit = self.at_once.acquire().await.expect("it is never closed");
        let time = match request {
            Request::Change {
                change: protocol::Change::Save,
                ..
            } => self.save,
            _ => self.call,
        };
        let kept = self.idle().take();
        let mut helper = match kept.and_then(Helper::if_alive) {
            Some(helper) => helper,
            None => self.start().await?,
        };
        let answered = tokio::time::timeout(time, helper.ask(request)).await;
        let reply = answered.map_err(|_| CallError::Late(time))??;
        self.idle().get_or_insert(helper);
        match reply {
            Reply::Failed(failure) => Err(CallError::Refused(failure)),
            reply => Ok(reply),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<Helper>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self) -> Result<Helper, CallError> {
        let start = |source| CallError::Start {
            program: self.program.clone(),
            source,
        };
        let mut process = Command::new(&self.program)
            .arg(&self.uri)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(start)?;
        let pipe = || start(std::io::ErrorKind::BrokenPipe.into());
        let to = process.stdin.take().ok_or_else(pipe)?;
        let from = process.stdout.take().ok_or_else(pipe)?;
        let mut helper = Helper {
            process,
            to,
            from: BufReader::new(from),
        };
        let hello = tokio::time::timeout(HELLO, helper.line()).await;
        let hello = hello.map_err(|_| CallError::Late(HELLO))??;
        let hello: Hello = protocol::read(&hello).map_err(CallError::Line)?;
        match hello.version == protocol::VERSION {
            true => Ok(helper),
            false => Err(CallError::Version {
                program: self.program.clone(),
                found: hello.version,
            }),
        }
    }
}

impl Helper {
    /// One that died while nobody asked is no failure of the next call.
    fn if_alive(mut self) -> Option<Self> {
        matches!(self.process.try_wait(), Ok(None)).then_some(self)
    }

    async fn ask(&mut self, request: &Request) -> Result<Reply, CallError> {
        let line = protocol::write(request).map_err(CallError::Line)?;
        self.to.write_all(&line).await.map_err(CallError::Ended)?;
        let answer = self.line().await?;
        protocol::read(&answer).map_err(CallError::Line)
    }

    /// One line, which must be whole: what is cut off was said by somebody who died.
    async fn line(&mut self) -> Result<Vec<u8>, CallError> {
        let mut line = Vec::new();
        let most = protocol::MAX_LINE as u64 + 1;
        let mut bounded = (&mut self.from).take(most);
        let read = bounded.read_until(b'\n', &mut line).await;
        read.map_err(CallError::Ended)?;
        match line.last() {
            Some(b'\n') => Ok(line),
            _ if line.len() > protocol::MAX_LINE => {
                Err(CallError::Line(LineError::TooLong(line.len())))
            }
            _ => Err(CallError::Ended(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

#[cfg(test)]
mod tests;
