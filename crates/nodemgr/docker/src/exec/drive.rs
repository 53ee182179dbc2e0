//! The task that owns a command which runs.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::Duration;

use bollard::exec::{ResizeExecOptions, StartExecOptions};
use bollard::models::ExecConfig;
use bytes::Bytes;
use muster_executor::{
    BoxError, Chunk, Driver, ExecutorError, Exit, FailureClass, Operation, Size,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Begun, Exec, Input, Output, exit, failed};
use crate::engine::EngineError;

/// How long the engine may take to know that a command has ended which was killed, or whose streams have ended.
const VERDICT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);
/// Longer than anything runs: no timeout.
pub(super) const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// What is needed to see a command to its end.
pub(super) struct Drive {
    pub(super) exec: Exec,
    pub(super) operation: Operation,
    pub(super) object: String,
    pub(super) timeout: Option<Duration>,
}

/// Why nothing is carried any more.
enum Stop {
    /// The command has closed its streams.
    Ended,
    TimedOut,
    Unwanted,
    Lost(io::Error),
}

impl Drive {
    pub(super) fn error(&self, class: FailureClass, source: impl Into<BoxError>) -> ExecutorError {
        ExecutorError::new(self.operation, self.object.clone(), class, source)
    }

    pub(super) async fn run(self, begun: Begun, driver: Driver) {
        let Begun {
            id,
            process,
            input,
            output,
            first,
        } = begun;
        let deadline = Instant::now() + self.timeout.unwrap_or(FOREVER);
        let is_terminal = output.frames.is_none();
        // Whatever ends this drops the sender of output, so that the reader sees the end before the verdict.
        let stop = tokio::select! {
            stop = carry(output, first, driver.output) => stop,
            never = feed(input, driver.stdin, is_terminal) => match never {},
            never = self.resize(&id, driver.size), if is_terminal => match never {},
            () = tokio::time::sleep_until(deadline) => Stop::TimedOut,
            () = driver.unwanted.cancelled() => Stop::Unwanted,
        };
        let result = self.conclude(&id, process, stop, is_terminal).await;
        // Nobody may be waiting.
        let _ = driver.exit.send(result);
    }

    async fn conclude(
        &self,
        id: &str,
        process: i32,
        stop: Stop,
        is_terminal: bool,
    ) -> Result<Exit, ExecutorError> {
        match stop {
            Stop::Ended => self.verdict(id).await,
            Stop::TimedOut => {
                self.kill(id, process, KILL).await?;
                let took = format!("it took longer than {:?}", self.timeout.unwrap_or(FOREVER));
                Err(self.error(FailureClass::TimedOut, took))
            }
            Stop::Unwanted => {
                let script = if is_terminal { HANG_UP } else { KILL };
                self.kill(id, process, script).await?;
                let source = "it was killed, because nobody wanted it any more";
                Err(self.error(FailureClass::Interrupted, source))
            }
            Stop::Lost(error) => Err(self.error(FailureClass::Interrupted, error)),
        }
    }

    /// How a command ended whose streams have.
    async fn verdict(&self, id: &str) -> Result<Exit, ExecutorError> {
        let deadline = Instant::now() + VERDICT;
        loop {
            let found = self.exec.inspect(id).await;
            let found = found.map_err(|error| {
                let (_, source) = failed(error);
                self.error(FailureClass::Interrupted, source)
            })?;
            if let (Some(false), Some(code)) = (found.running, found.exit_code) {
                return Ok(exit(code));
            }
            if Instant::now() >= deadline {
                let source = "it closed its streams and did not end";
                return Err(self.error(FailureClass::Interrupted, source));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Kills a command with its group, whatever it is doing.
    pub(super) async fn kill_now(&self, id: &str, process: i32) -> Result<(), ExecutorError> {
        self.kill(id, process, KILL).await
    }

    /// Kills a command with its group, from inside the container, and sees it gone.
    async fn kill(&self, id: &str, process: i32, script: &str) -> Result<(), ExecutorError> {
        let killed = self.exec.detached(script, process).await;
        let alive = |why: EngineError| {
            let (_, source) = failed(why);
            self.error(FailureClass::Interrupted, source)
        };
        match killed {
            // The container has ended, and everything in it.
            Err(error) if matches!(error.status(), Some(404 | 409)) => return Ok(()),
            killed => killed.map_err(alive)?,
        }
        let deadline = Instant::now() + VERDICT;
        loop {
            match self.exec.inspect(id).await {
                Ok(found) if found.running == Some(true) => {}
                Err(error) if error.status() != Some(404) => return Err(alive(error)),
                _ => return Ok(()),
            }
            if Instant::now() >= deadline {
                let source = "it was killed and is still there";
                return Err(self.error(FailureClass::Interrupted, source));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives the terminal its size, and every other that comes.
    async fn resize(&self, id: &str, mut size: watch::Receiver<Size>) -> Infallible {
        loop {
            let Size { columns, rows } = *size.borrow_and_update();
            let options = ResizeExecOptions {
                width: columns,
                height: rows,
            };
            if let Ok(docker) = self.exec.engine.docker().await {
                // One that fails comes too late: the command has ended, which is noticed elsewhere.
                let _ = docker.resize_exec(id, options).await;
            }
            if size.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}

const KILL: &str = r#"kill -s KILL -- "-$1""#;
/// What a terminal does that is closed, and what becomes of those who do not listen.
const HANG_UP: &str = r#"kill -s HUP -- "-$1"; sleep 1; kill -s KILL -- "-$1""#;

impl Exec {
    /// Runs a script for a process as the container's root, without waiting for it.
    async fn detached(&self, script: &str, process: i32) -> Result<(), EngineError> {
        let process = process.to_string();
        let words = ["sh", "-c", script, "sh", &process];
        let config = ExecConfig {
            cmd: Some(words.map(str::to_owned).to_vec()),
            user: Some("0".to_owned()),
            ..ExecConfig::default()
        };
        let docker = self.engine.docker().await?;
        let created = docker.create_exec(self.container.as_str(), config).await;
        let created = created.map_err(|error| EngineError::new("prepare a kill", error))?;
        let options = StartExecOptions {
            detach: true,
            ..StartExecOptions::default()
        };
        let started = docker.start_exec(&created.id, Some(options)).await;
        started
            .map(drop)
            .map_err(|error| EngineError::new("kill a command", error))
    }
}

/// Carries output until there is no more, or nobody wants it.
async fn carry(mut from: Output, first: Vec<Chunk>, to: mpsc::Sender<Chunk>) -> Stop {
    let mut chunks = first;
    loop {
        for chunk in chunks {
            if to.send(chunk).await.is_err() {
                return Stop::Unwanted;
            }
        }
        chunks = match from.read().await {
            Ok(Some(chunks)) => chunks,
            Ok(None) => return Stop::Ended,
            Err(error) => return Stop::Lost(error),
        };
    }
}

/// Carries input until there is no more, and holds the connection open for output.
async fn feed(mut to: Input, mut from: mpsc::Receiver<Bytes>, is_terminal: bool) -> Infallible {
    while let Some(bytes) = from.recv().await {
        if to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    // Whoever writes on is told that nobody reads.
    drop(from);
    if !is_terminal {
        // If it fails, the connection has ended, which the other side notices.
        let _ = to.shutdown().await;
    }
    pending().await
}
