//! Commands in a container: started through the engine, driven by a task each.

mod begin;
mod drive;
mod frames;

use bollard::models::ExecInspectResponse;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use muster_executor::{
    Attached, Chunk, Command, Driver, ExecutorError, Exit, FailureClass, Operation, Running,
    Terminal, attached, running, signal_name,
};
use muster_provider::ResourceId;
use tokio::io::{AsyncReadExt as _, ReadHalf, WriteHalf};

use self::drive::Drive;
use self::frames::Frames;
use crate::engine::{Engine, EngineError};

/// What is read from a connection at once.
const PIECE: usize = 64 << 10;

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
        let begun = self.begin(Operation::Run, command, None).await?;
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
        let begun = self.begin(Operation::Attach, &command, Some(terminal));
        let begun = begun.await?;
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
