//! What an executor is.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_provider::{Capabilities, Means};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::command::{Command, Terminal};
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::files::Files;
use crate::power::{self, PowerVerb};
use crate::running::{Attached, Running};
use crate::transfer::{self, Report, Transfer};

/// An executor's answer, to come.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ExecutorError>>;

/// A connection to a port of a machine.
pub trait TcpLike: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> TcpLike for T {}

/// How long a probe waits for a machine.
const PROBE: Duration = Duration::from_secs(20);

/// Runs commands in a machine, and moves files to it and from it.
///
/// The conformance suite in `testing` holds an executor to all of this.
pub trait Executor: fmt::Debug + Send + Sync {
    /// How the machine can be used through this executor. It claims nothing that it does not do.
    fn access(&self) -> Capabilities;

    /// Starts a command. It answers when the command runs, so that a program that does not exist fails here.
    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running>;

    /// Starts a command with a terminal; a login shell, if there is none.
    fn attach<'a>(
        &'a self,
        command: Option<&'a Command>,
        terminal: &'a Terminal,
    ) -> Answer<'a, Attached>;

    /// The files below a folder of the machine. The folder need not exist; it is what the caller named, so that links in
    /// its own path are followed. A path that is not absolute starts in the folder that commands start in.
    fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>>;

    /// Opens a connection to a port, as seen from the machine.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>>;

    /// Whether the machine is ready to run commands; why not, if it is not.
    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let command = Command::new("true").timeout(PROBE);
            let answer = async { self.run(&command).await?.wait().await };
            let late = |_| {
                let (class, source) = (FailureClass::Unreachable, "it took too long to answer");
                Err(ExecutorError::new(
                    Operation::Run,
                    command.object(),
                    class,
                    source,
                ))
            };
            let exit = tokio::time::timeout(PROBE, answer)
                .await
                .unwrap_or_else(late)?;
            if exit.is_success() {
                return Ok(());
            }
            let (class, source) = (FailureClass::NotStarted, format!("it ended with {exit}"));
            Err(ExecutorError::new(
                Operation::Run,
                command.object(),
                class,
                source,
            ))
        })
    }

    /// Switches the machine off, or boots it again, from inside. It answers when the machine has taken it on.
    fn power(&self, verb: PowerVerb) -> Answer<'_, ()> {
        Box::pin(async move {
            let run = async |command: &Command| self.run(command).await?.output(4096).await;
            power::switch(verb, run).await
        })
    }

    /// Copies a file or folder. What is there already and the same is left alone.
    fn copy<'a>(&'a self, transfer: &'a Transfer) -> Answer<'a, Report> {
        Box::pin(async move { transfer::copy(transfer, |folder| self.files(folder)).await })
    }

    /// Makes two folders the same, by moving only what changed: with rsync where both sides have it, as [`Self::copy`]
    /// otherwise.
    fn sync<'a>(&'a self, transfer: &'a Transfer) -> Answer<'a, Report> {
        self.copy(transfer)
    }

    /// Whether its capabilities name this.
    fn can(&self, means: Means) -> bool {
        self.access().iter().any(|it| it.means == means)
    }
}
