//! Why an executor did not do what it was asked.

use std::error::Error;
use std::fmt;

use crate::Answer;

/// A cause of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a failure means for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// The machine does not answer (yet, or any more). Nothing was started.
    Unreachable,
    /// The machine, or this side, will not have it: wrong key, changed host key, not allowed, a hostile name.
    Refused,
    /// The machine answers, but has no such program.
    NoProgram,
    /// The machine has it, but it cannot be executed: it is a folder, or nobody may.
    NotExecutable,
    /// The machine answers, but the command cannot be started for another reason: its folder or user is not there, or no shell.
    NotStarted,
    /// It took longer than it was allowed to, and was killed.
    TimedOut,
    /// The connection was lost on the way: what was asked may have been done, wholly or in part.
    Interrupted,
    /// A file could not be read or written.
    Io,
    /// This executor cannot do that with any machine.
    Unsupported,
}

impl FailureClass {
    /// Whether the same request may work later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Unreachable | Self::Interrupted)
    }

    /// Whether the machine answered, and nothing was started.
    #[must_use]
    pub const fn is_not_started(self) -> bool {
        matches!(
            self,
            Self::NoProgram | Self::NotExecutable | Self::NotStarted
        )
    }

    /// What a program that stands for the command exits with, as shells, `env` and `timeout` have it: 127 when there is no such
    /// program, 126 when it cannot be executed, 124 when it took too long, 125 when it was not the command that failed.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::NoProgram => 127,
            Self::NotExecutable => 126,
            Self::TimedOut => 124,
            Self::Unreachable
            | Self::Refused
            | Self::NotStarted
            | Self::Interrupted
            | Self::Io
            | Self::Unsupported => 125,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "the machine does not answer",
            Self::Refused => "it is refused",
            Self::NoProgram => "it is not there",
            Self::NotExecutable => "it cannot be executed",
            Self::NotStarted => "it cannot be started",
            Self::TimedOut => "it took too long",
            Self::Interrupted => "the connection was lost",
            Self::Io => "a file cannot be read or written",
            Self::Unsupported => "this executor does not support that",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What an executor was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To connect to the machine.
    Connect,
    /// To run a command.
    Run,
    /// To open a terminal.
    Attach,
    /// To list a folder.
    List,
    /// To read a file.
    Read,
    /// To write a file.
    Write,
    /// To make, change or remove something in a folder.
    Change,
    /// To copy or synchronise.
    Copy,
    /// To open a connection to a port of the machine.
    Forward,
    /// To switch the machine off or boot it again.
    Power,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect to",
            Self::Run => "run",
            Self::Attach => "attach to",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Change => "change",
            Self::Copy => "copy",
            Self::Forward => "forward to",
            Self::Power => "switch the power of",
        })
    }
}

/// An executor failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {class}")]
pub struct ExecutorError {
    /// At what.
    pub operation: Operation,
    /// With which command, file, port or machine.
    pub object: String,
    /// What it means.
    pub class: FailureClass,
    /// What exactly was wrong.
    #[source]
    pub source: BoxError,
}

impl ExecutorError {
    /// A failure.
    pub fn new(
        operation: Operation,
        object: impl Into<String>,
        class: FailureClass,
        source: impl Into<BoxError>,
    ) -> Self {
        Self {
            operation,
            object: object.into(),
            class,
            source: source.into(),
        }
    }

    /// An answer that says that this is not supported.
    #[must_use]
    pub fn unsupported<'a, T: Send + 'a>(
        operation: Operation,
        object: impl Into<String>,
        why: &'static str,
    ) -> Answer<'a, T> {
        let error = Self::new(operation, object, FailureClass::Unsupported, why);
        Box::pin(std::future::ready(Err(error)))
    }
}
