//! This machine itself.

mod files;
mod process;
mod pty;

use std::path::Path;
use std::sync::Arc;

use muster_provider::{Capabilities, Capability, Means, Transport};
use tokio::net::TcpStream;

use crate::command::{Command, Terminal};
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::{Answer, Executor, TcpLike};
use crate::files::Files;
use crate::power::PowerVerb;
use crate::running::{Attached, Running};

pub use files::LocalFiles;
pub(crate) use process::late;

/// Runs commands on this machine, as whoever this program runs as. Nothing is kept from them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl LocalExecutor {
    /// This machine.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Executor for LocalExecutor {
    fn access(&self) -> Capabilities {
        let means = [Means::Exec, Means::Attach, Means::Copy, Means::Forward];
        means.map(|it| Capability::new(Transport::Local, it)).into()
    }

    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
        Box::pin(process::run(command))
    }

    fn attach<'a>(
        &'a self,
        command: Option<&'a Command>,
        terminal: &'a Terminal,
    ) -> Answer<'a, Attached> {
        Box::pin(pty::attach(command, terminal))
    }

    fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>> {
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(folder));
        Box::pin(std::future::ready(Ok(files)))
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await.map_err(|source| {
                let (object, class) = (format!("{host}:{port}"), FailureClass::Refused);
                ExecutorError::new(Operation::Forward, object, class, source)
            })?;
            Ok(Box::new(stream) as Box<dyn TcpLike>)
        })
    }

    fn power(&self, _: PowerVerb) -> Answer<'_, ()> {
        let why = "this machine was not made to be switched off by whoever uses it";
        ExecutorError::unsupported(Operation::Power, "this machine", why)
    }
}
