//! The suites that every provider and every executor passes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_docker::DockerExecutor;
use muster_executor::{Command, Executor, Exit, FailureClass, PowerVerb, signal_name};
use muster_lab::poll_until;
use muster_provider::testing::{Rig, run};
use muster_provider::{MachineSpec, Owned, Provider, ResourceId};

use crate::rig::{Docker, IMAGE, PATIENCE, order, spec};

struct DockerRig(Docker);

impl std::fmt::Debug for DockerRig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DockerRig")
    }
}

impl Rig for DockerRig {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider())
    }

    fn spec(&self) -> MachineSpec {
        spec()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        let id = self
            .0
            .cli(&["run", "--detach", "--init", IMAGE, "sleep", "infinity"]);
        std::future::ready(ResourceId::new(&id).ok()).boxed()
    }

    fn boot<'a>(&'a self, machine: &'a Owned) -> BoxFuture<'a, Option<String>> {
        let id = machine.resource.as_str();
        let format = "{{.State.StartedAt}}";
        let started = self.0.cli(&["inspect", "--format", format, id]);
        std::future::ready(Some(started)).boxed()
    }

    fn is_untouched<'a>(&'a self, foreign: &'a ResourceId) -> BoxFuture<'a, bool> {
        let id = foreign.as_str();
        let state = self
            .0
            .cli(&["inspect", "--format", "{{.State.Status}}", id]);
        self.0.cli(&["rm", "--force", id]);
        std::future::ready(state == "running").boxed()
    }
}

#[tokio::test]
async fn an_engine_keeps_every_promise_of_a_provider_and_is_left_as_it_was() {
    muster_lab::require_docker!();
    let rig = DockerRig(Docker::start());
    let before = rig.0.traces();
    let report = run(&rig).await;
    println!("{report}");
    // What a container cannot do is exactly this: it cannot sleep, and nobody takes it back.
    report.assert_skipped_only(&[
        (
            "start is refused where it is not offered",
            "it can start machines",
        ),
        (
            "stop is refused where it is not offered",
            "it can stop machines",
        ),
        (
            "a forced stop is refused where it is not offered",
            "it can force-stop machines",
        ),
        (
            "reboot is refused where it is not offered",
            "it can reboot machines",
        ),
        (
            "a hibernation ends in hibernated and goes on",
            "it cannot hibernate machines",
        ),
        (
            "starting a hibernated machine resumes it",
            "it cannot hibernate machines",
        ),
        (
            "a hibernated machine can be terminated",
            "it cannot hibernate machines",
        ),
        (
            "a stopped machine cannot be hibernated",
            "it cannot hibernate machines",
        ),
        (
            "a machine that was not hibernated cannot be resumed",
            "it cannot resume machines",
        ),
        (
            "a verb is refused where it is not offered by one machine alone",
            "it offers whatever its provider can do",
        ),
        (
            "a verb is refused where it is not offered by spot machines alone",
            "it has no spot machines",
        ),
    ]);
    report.assert_at_least(40);
    rig.0.assert_traces(&before);
}

/// Where the server listens that sends back what it is sent.
const ECHO: u16 = 7007;

#[derive(Debug)]
struct ExecutorRig(DockerExecutor);

impl muster_executor::testing::Rig for ExecutorRig {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(self.0.clone())
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from("/tmp/cases")
    }

    fn echo(&self) -> Option<(String, u16)> {
        Some(("127.0.0.1".to_owned(), ECHO))
    }

    fn power_log(&self) -> Option<PathBuf> {
        None
    }

    fn tells_codes_from_signals(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_container_keeps_every_promise_of_an_executor() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let made = docker.provider().provision(&order(spec())).await.unwrap();
    let id = made.resource.as_str();
    let port = ECHO.to_string();
    docker.cli(&[
        "exec", "--detach", id, "nc", "-ll", "-p", &port, "-e", "cat",
    ]);
    let listens = format!(":{ECHO:04X} ");
    let listening = || {
        docker
            .cli(&["exec", id, "cat", "/proc/net/tcp", "/proc/net/tcp6"])
            .contains(&listens)
    };
    poll_until(PATIENCE, "the echo", listening);
    let executor = DockerExecutor::new(docker.engine(), made.resource.clone());
    let report = muster_executor::testing::run(&ExecutorRig(executor.clone())).await;
    println!("{report}");
    // The engine switches a container's power, not a program inside, and tells one number of how a command ended: both are looked
    // at below.
    report.assert_skipped_only(&[
        (
            "the machine is switched off and booted from inside",
            "nothing stands in the place of its power",
        ),
        (
            "a code that a shell gives to a signal stays a code",
            "one number says both how it ended and by which signal",
        ),
    ]);
    for code in 128..=255 {
        let command = Command::shell(format!("exit {code}"));
        let ended = executor.run(&command).await.unwrap().wait().await.unwrap();
        let expected = match signal_name(code - 128) {
            Some(name) => Exit::Signal(name.to_owned()),
            None => Exit::Code(code),
        };
        assert_eq!(ended, expected, "{code}");
    }

    executor
        .run(&Command::new("touch").arg("/tmp/kept"))
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    executor.power(PowerVerb::Reboot).await.unwrap();
    executor.probe().await.unwrap();
    let kept = Command::new("test").args(["-e", "/tmp/kept"]);
    assert!(
        executor
            .run(&kept)
            .await
            .unwrap()
            .wait()
            .await
            .unwrap()
            .is_success()
    );
    executor.power(PowerVerb::Off).await.unwrap();
    let error = executor.probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unreachable, "{:?}", error.source);
}
