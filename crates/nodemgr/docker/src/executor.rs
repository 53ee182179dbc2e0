//! The executor: commands and files of one container.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::{RestartContainerOptionsBuilder, StopContainerOptionsBuilder};
use futures_util::FutureExt as _;
use muster_executor::files::Files;
use muster_executor::{
    Answer, Attached, Command, Executor, ExecutorError, FailureClass, Operation, PowerVerb,
    Running, TcpLike, Terminal,
};
use muster_provider::{Capabilities, Capability, Means, ResourceId, Transport};

use crate::engine::{Engine, EngineError};
use crate::exec::Exec;
use crate::files::ShellFiles;
use crate::relay;

/// How long a machine may take to go down before its processes are killed.
const GRACE: i32 = 10;
/// How long the engine may take for that, and for a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs commands in one container, and moves files to it and from it. See the [crate](crate) for what that needs.
#[derive(Debug, Clone)]
pub struct DockerExecutor {
    exec: Exec,
}

/// What can be done with every container.
pub(crate) fn access() -> Capabilities {
    let means = [Means::Exec, Means::Attach, Means::Copy, Means::Forward];
    means
        .map(|means| Capability::new(Transport::Docker, means))
        .into()
}

impl DockerExecutor {
    /// An executor for a container, by its id. Nothing is asked of the engine yet.
    #[must_use]
    pub const fn new(engine: Engine, container: ResourceId) -> Self {
        let exec = Exec { engine, container };
        Self { exec }
    }

    /// The engine does it, and not a program inside: a container has no power that could be switched from there, and one that
    /// ends is not started again by itself.
    async fn switch(&self, verb: PowerVerb) -> Result<(), EngineError> {
        let Exec { engine, container } = &self.exec;
        let docker = engine.docker().await?.with_timeout(PATIENCE);
        let (operation, done) = match verb {
            PowerVerb::Off => {
                let options = StopContainerOptionsBuilder::new().t(GRACE).build();
                let done = docker.stop_container(container.as_str(), Some(options));
                ("stop the container", done.await)
            }
            PowerVerb::Reboot => {
                let options = RestartContainerOptionsBuilder::new().t(GRACE).build();
                let done = docker.restart_container(container.as_str(), Some(options));
                ("restart the container", done.await)
            }
        };
        done.map_err(|error| EngineError::new(operation, error))
    }
}

impl Executor for DockerExecutor {
    fn access(&self) -> Capabilities {
        access()
    }

    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
        self.exec.run(command).boxed()
    }

    fn attach<'a>(
        &'a self,
        command: Option<&'a Command>,
        terminal: &'a Terminal,
    ) -> Answer<'a, Attached> {
        self.exec.attach(command, terminal).boxed()
    }

    fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>> {
        let files: Arc<dyn Files> = Arc::new(ShellFiles::new(self.exec.clone(), folder));
        std::future::ready(Ok(files)).boxed()
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>> {
        relay::connect(&self.exec, host, port).boxed()
    }

    fn power(&self, verb: PowerVerb) -> Answer<'_, ()> {
        async move {
            self.switch(verb).await.map_err(|error| {
                let class = match error.status() {
                    Some(404) | None => FailureClass::Unreachable,
                    Some(_) => FailureClass::Refused,
                };
                let object = self.exec.container.to_string();
                ExecutorError::new(Operation::Power, object, class, error)
            })
        }
        .boxed()
    }
}
