//! Commands in a container: started through the engine, driven by a task each.

mod drive;
mod frames;

use bollard::models::{ExecConfig, ExecInspectResponse};
use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use muster_executor::script::{LAUNCHER, NotStarted, Script, Started};
use muster_executor::{
    Attached, Chunk, Command, Driver, ExecutorError, Exit, FailureClass, Operation, Running,
    Terminal, attached, running, signal_name,
};
use muster_provider::ResourceId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use self::drive::Drive;
use self::frames::Frames;
use crate::engine::{Engine, EngineError};

/// What is read from a connection at once.
const PIECE: usize = 64 << 10;
/// How much of what the engine says instead of starting a command is shown.
const LONGEST_WORDS: usize = 1024;

/// Keys that nobody presses sixteen times: the engine would take others for the wish to leave a terminal, and swallow them.
const DETACH_KEY: &str = "ctrl-^";
const DETACH_KEYS: usize = 16;

/// A login shell: the best there is.
const LOGIN: &str = "if command -v bash >/dev/null; then exec bash -l; fi; exec sh -l";

/// Begins commands in one container.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    pub(crate) engine: Engine,
    pub(crate) container: ResourceId,
}

/// To where a command's input goes.
type Input = WriteHalf<TokioIo<Upgraded>>;

/// From where its output comes.
#[derive(Debug)]
struct Output {
    read: ReadHalf<TokioIo<Upgraded>>,
    /// None for a terminal, which has one stream only.
    frames: Option<Frames>,
}

/// A command that runs.
#[derive(Debug)]
struct Begun {
    /// What the engine calls it.
    id: String,
    /// What the container calls it: a process that leads a group.
    process: i32,
    input: Input,
    output: Output,
    /// Output that came with the answer.
    first: Vec<Chunk>,
}

/// A failure that has not been told to which command it belongs.
type Failure = (FailureClass, Box<dyn std::error::Error + Send + Sync>);

/// What the engine's answer means for a command.
fn failed(error: EngineError) -> Failure {
    let class = match &error {
        EngineError::Unreachable { .. } | EngineError::TooOld { .. } => FailureClass::Unreachable,
        // There is no such container, or it does not run.
        EngineError::Answered {
            status: 404 | 409, ..
        } => FailureClass::Unreachable,
        EngineError::Answered { status, .. } if *status < 500 => FailureClass::Refused,
        EngineError::Answered { .. } => FailureClass::NotStarted,
        EngineError::Lost { .. } => FailureClass::Interrupted,
    };
    (class, error.into())
}

fn interrupted(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    (FailureClass::Interrupted, error.into())
}

/// How errors name a command.
fn object(command: &Command) -> String {
    format!("{:?}", command.program)
}

impl Exec {
    pub(crate) async fn run(&self, command: &Command) -> Result<Running, ExecutorError> {
        let object = object(command);
        let script = script(command)?;
        let begun = self.begin(command, &script, None).await;
        let begun = begun.map_err(|(class, source)| {
            ExecutorError::new(Operation::Run, object.clone(), class, source)
        })?;
        let (running, driver) = running(object.clone(), command.input);
        self.drive(Operation::Run, object, command, begun, driver);
        Ok(running)
    }

    pub(crate) async fn attach(
        &self,
        command: Option<&Command>,
        terminal: &Terminal,
    ) -> Result<Attached, ExecutorError> {
        let login = Command::shell(LOGIN);
        let command = command.unwrap_or(&login).clone();
        let command = command.env("TERM", &terminal.kind);
        let object = object(&command);
        let script = script(&command)?;
        let begun = self.begin(&command, &script, Some(terminal)).await;
        let begun = begun.map_err(|(class, source)| {
            ExecutorError::new(Operation::Attach, object.clone(), class, source)
        })?;
        let (attached, driver) = attached(object.clone(), terminal.size);
        self.drive(Operation::Attach, object, &command, begun, driver);
        Ok(attached)
    }

    fn drive(
        &self,
        operation: Operation,
        object: String,
        command: &Command,
        begun: Begun,
        driver: Driver,
    ) {
        let drive = Drive {
            exec: self.clone(),
            operation,
            object,
            timeout: command.timeout,
        };
        tokio::spawn(drive.run(begun, driver));
    }

    /// Starts a command, and waits until it says as which process.
    async fn begin(
        &self,
        command: &Command,
        script: &Script,
        terminal: Option<&Terminal>,
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
        let path = format!("/exec/{id}/start");
        let body = serde_json::json!({ "Detach": false, "Tty": terminal.is_some() });
        let body = Bytes::from(body.to_string());
        let stream = self.engine.upgrade("start a command", &path, body).await;
        let (read, mut input) = tokio::io::split(stream.map_err(failed)?);
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

    async fn inspect(&self, id: &str) -> Result<ExecInspectResponse, EngineError> {
        let docker = self.engine.docker().await?;
        let found = docker.inspect_exec(id).await;
        found.map_err(|error| EngineError::new("look at a command", error))
    }
}

impl Output {
    /// What comes next; none at the end. It may be nothing at all, if only a header came.
    async fn read(&mut self) -> std::io::Result<Option<Vec<Chunk>>> {
        let mut bytes = bytes::BytesMut::with_capacity(PIECE);
        let length = self.read.read_buf(&mut bytes).await?;
        let Some(frames) = &mut self.frames else {
            let chunk = Chunk::Stdout(bytes.freeze());
            return Ok((length > 0).then(|| vec![chunk]));
        };
        if length == 0 {
            return match frames.end() {
                Ok(()) => Ok(None),
                Err(error) => Err(std::io::Error::other(error)),
            };
        }
        frames.add(&bytes);
        let mut chunks = Vec::new();
        while let Some(chunk) = frames.next().map_err(std::io::Error::other)? {
            chunks.push(chunk);
        }
        Ok(Some(chunks))
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

/// How a process ended, from the one number that the engine tells: a signal is 128 and its number, as for every shell. So a
/// command that ends with such a code by itself is taken for one that was killed. That could not be helped by a program of ours
/// that waits for it: what there is in every container is a shell, which is told no more.
fn exit(code: i64) -> Exit {
    let code = i32::try_from(code).unwrap_or(i32::MAX);
    match signal_name(code.saturating_sub(128)) {
        Some(name) => Exit::Signal(name.to_owned()),
        None => Exit::Code(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_tells_codes_from_signals() {
        assert_eq!(exit(0), Exit::Code(0));
        assert_eq!(exit(255), Exit::Code(255));
        assert_eq!(exit(137), Exit::Signal("KILL".to_owned()));
        assert_eq!(exit(143), Exit::Signal("TERM".to_owned()));
        assert_eq!(exit(128), Exit::Code(128));
    }
}
