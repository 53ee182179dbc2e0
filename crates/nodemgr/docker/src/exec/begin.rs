//! The way of a command from a wish to a process.

use std::pin::{Pin, pin};
use std::time::Duration;

use bollard::models::ExecConfig;
use bytes::Bytes;
use muster_executor::script::{LAUNCHER, NotStarted, Script, Started};
use muster_executor::{Chunk, Command, ExecutorError, FailureClass, Operation, Terminal};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::drive::{Drive, FOREVER};
use super::frames::Frames;
use super::{Begun, Exec, Failure, Input, Output, failed, interrupted, object};
use crate::engine::EngineError;

/// How much of what the engine says instead of starting a command is shown.
const LONGEST_WORDS: usize = 1024;

/// Keys that nobody presses sixteen times: the engine would take others for the wish to leave a terminal, and swallow them.
const DETACH_KEY: &str = "ctrl-^";
const DETACH_KEYS: usize = 16;

/// How long a command may take to begin that is to be killed then.
const GIVING_UP: Duration = Duration::from_secs(10);

const UNWANTED: &str = "nobody wanted it any more";

/// A command that is to begin. Starting it is a task of its own: an engine, or a shell, may begin with what whoever asked for it has
/// given up.
struct Beginning {
    drive: Drive,
    command: Command,
    script: Script,
    terminal: Option<Terminal>,
}

impl Beginning {
    async fn run(self, mut tell: oneshot::Sender<Result<Begun, ExecutorError>>) {
        let unwanted = CancellationToken::new();
        let exec = &self.drive.exec;
        let start = exec.start(
            &self.command,
            &self.script,
            self.terminal.as_ref(),
            &unwanted,
        );
        let mut start = pin!(start);
        let limit = self.command.timeout.unwrap_or(FOREVER);
        let begun = tokio::select! {
            biased;
            begun = &mut start => begun,
            () = tokio::time::sleep(limit) => {
                let why = "it had not even started";
                // Nobody may be waiting any more.
                let _ = tell.send(Err(self.drive.error(FailureClass::TimedOut, why)));
                unwanted.cancel();
                return self.give_up(start).await;
            }
            () = tell.closed() => {
                unwanted.cancel();
                return self.give_up(start).await;
            }
        };
        let begun = begun.map_err(|(class, source)| self.drive.error(class, source));
        if let Err(Ok(begun)) = tell.send(begun) {
            self.kill(begun).await;
        }
    }

    /// Kills what has begun, or begins soon.
    async fn give_up(&self, start: Pin<&mut impl Future<Output = Result<Begun, Failure>>>) {
        match tokio::time::timeout(GIVING_UP, start).await {
            Ok(Ok(begun)) => self.kill(begun).await,
            // It has not begun, and will not.
            Ok(Err(_)) => {}
            Err(_) => {
                tracing::warn!(command = %self.drive.object, container = %self.drive.exec.container,
                "cannot kill a command that may begin: the engine does not answer")
            }
        }
    }

    async fn kill(&self, begun: Begun) {
        let Begun { id, process, .. } = begun;
        if let Err(error) = self.drive.kill_now(&id, process).await {
            tracing::warn!(%error, cause = %error.source, "cannot kill a command that nobody wants");
        }
    }
}

impl Exec {
    /// Starts a command, and waits until it says as which process, as long as it may take.
    pub(super) async fn begin(
        &self,
        operation: Operation,
        command: &Command,
        terminal: Option<&Terminal>,
    ) -> Result<Begun, ExecutorError> {
        let drive = Drive {
            exec: self.clone(),
            operation,
            object: object(command),
            timeout: command.timeout,
        };
        let gone = drive.error(FailureClass::Interrupted, "nobody drives it");
        let beginning = Beginning {
            drive,
            script: script(command)?,
            command: command.clone(),
            terminal: terminal.cloned(),
        };
        let (tell, told) = oneshot::channel();
        tokio::spawn(beginning.run(tell));
        told.await.unwrap_or(Err(gone))
    }

    /// Starts a command, and waits until it says as which process.
    async fn start(
        &self,
        command: &Command,
        script: &Script,
        terminal: Option<&Terminal>,
        unwanted: &CancellationToken,
    ) -> Result<Begun, Failure> {
        let words = match terminal {
            None => ["sh", "-c", LAUNCHER].map(str::to_owned),
            Some(terminal) => words(script, terminal)?,
        };
        let config = ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(terminal.is_some()),
            detach_keys: Some([DETACH_KEY; DETACH_KEYS].join(",")),
            cmd: Some(words.to_vec()),
            user: command.user.clone(),
            ..ExecConfig::default()
        };
        let docker = self.engine.docker().await.map_err(failed)?;
        let created = docker.create_exec(self.container.as_str(), config).await;
        let created =
            created.map_err(|error| failed(EngineError::new("prepare a command", error)))?;
        let id = created.id;
        if unwanted.is_cancelled() {
            return Err(interrupted(UNWANTED));
        }
        let path = format!("/exec/{id}/start");
        let body = serde_json::json!({ "Detach": false, "Tty": terminal.is_some() });
        let body = Bytes::from(body.to_string());
        let stream = self.engine.upgrade("start a command", &path, body).await;
        let (read, mut input) = tokio::io::split(stream.map_err(failed)?);
        if unwanted.is_cancelled() {
            // A shell without input ends.
            return Err(interrupted(UNWANTED));
        }
        if terminal.is_none() {
            // Where there is no shell nobody reads it, and the engine says so below.
            let _ = input.write_all(&script.line()).await;
        }
        let frames = terminal.is_none().then(Frames::default);
        self.heading(id, script, input, Output { read, frames })
            .await
    }

    /// Reads until the answer is there.
    async fn heading(
        &self,
        id: String,
        script: &Script,
        input: Input,
        mut output: Output,
    ) -> Result<Begun, Failure> {
        let mut heading = script.heading();
        // What comes before the answer is the engine's, if the answer never comes.
        let mut words = Vec::new();
        let mut errors = Vec::new();
        let (started, rest) = 'answer: loop {
            let Some(chunks) = output.read().await.map_err(interrupted)? else {
                return Err(self.no_answer(&id, &words).await);
            };
            let mut chunks = chunks.into_iter();
            while let Some(chunk) = chunks.next() {
                let bytes = chunk.bytes();
                let room = LONGEST_WORDS.saturating_sub(words.len()).min(bytes.len());
                words.extend_from_slice(&bytes[..room]);
                if let Chunk::Stderr(_) = chunk {
                    errors.push(chunk);
                    continue;
                }
                if let Some((started, rest)) = heading.take(bytes) {
                    let rest = (!rest.is_empty()).then_some(Chunk::Stdout(rest));
                    let after = rest.into_iter().chain(chunks);
                    break 'answer (started, after.collect::<Vec<_>>());
                }
            }
        };
        errors.extend(rest);
        match started {
            Started::Process(process) => Ok(Begun {
                id,
                process,
                input,
                output,
                first: errors,
            }),
            Started::Not(why) => Err((why.class(), why.into())),
        }
    }

    /// Why there is no answer: there is no shell, no such user, or the container has ended.
    async fn no_answer(&self, id: &str, words: &[u8]) -> Failure {
        match self.inspect(id).await {
            Ok(it) if matches!(it.exit_code, Some(126 | 127)) => {
                let words = String::from_utf8_lossy(words).trim().to_owned();
                (FailureClass::NotStarted, words.into())
            }
            Ok(_) => interrupted(NotStarted::Answer),
            Err(error) => failed(error),
        }
    }
}

/// The program that becomes the command. Whom it runs as is the engine's part.
fn script(command: &Command) -> Result<Script, ExecutorError> {
    let mut command = command.clone();
    command.user = None;
    Script::new(&command)
}

/// What a terminal is started with: it has its size before the command can look at it.
fn words(script: &Script, terminal: &Terminal) -> Result<[String; 3], Failure> {
    let [shell, option, text] = script.words();
    let size = terminal.size;
    let sized = format!(
        "stty cols {} rows {} 2>/dev/null\n",
        size.columns, size.rows
    );
    let text = [sized.into_bytes(), text].concat();
    let word = |bytes| String::from_utf8(bytes);
    match (word(shell), word(option), word(text)) {
        (Ok(shell), Ok(option), Ok(text)) => Ok([shell, option, text]),
        _ => {
            let why = "a command for a terminal must be UTF-8 text";
            Err((FailureClass::Refused, why.into()))
        }
    }
}
