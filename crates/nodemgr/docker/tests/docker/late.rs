//! Commands that begin when nobody waits for them any more.

use std::time::{Duration, Instant};

use muster_docker::DockerExecutor;
use muster_executor::script::GRACE;
use muster_executor::{Command, Executor as _, FailureClass};
use muster_lab::poll_until;
use muster_provider::Provider as _;

use crate::rig::{Docker, PATIENCE, order, spec};

/// A shell that does not begin before there is a file `go`; `here` tells that it has read what it shall do.
const HESITANT: &str = r#"#!/bin/dash
cd /late || exit
if [ ! -e go ]; then
  IFS= read -r line
  : >here
  while [ ! -e go ]; do sleep 0.02; done
  eval "$line"
  exit
fi
exec /bin/dash "$@"
"#;

/// Puts it in the place of the real one.
const REPLACE: &str =
    r#"mkdir /late && printf %s "$0" >/bin/new && chmod 755 /bin/new && mv -f /bin/new /bin/sh"#;

struct Late {
    docker: Docker,
    id: String,
    executor: DockerExecutor,
}

impl Late {
    async fn start() -> Self {
        let docker = Docker::start();
        let made = docker.provider().provision(&order(spec())).await.unwrap();
        let id = made.resource.to_string();
        docker.cli(&["exec", &id, "busybox", "sh", "-c", REPLACE, HESITANT]);
        let executor = DockerExecutor::new(docker.engine(), made.resource);
        Self {
            docker,
            id,
            executor,
        }
    }

    fn inside(&self, words: &[&str]) -> bool {
        let way = ["exec", &*self.id, "busybox"];
        self.docker.try_cli(&[&way, words].concat())
    }

    /// Lets the shell begin, and looks whether what it was told to do is killed.
    fn assert_killed(&self) {
        let since = Instant::now();
        assert!(self.inside(&["touch", "/late/go"]));
        poll_until(PATIENCE, "it begins", || {
            self.inside(&["test", "-s", "/late/process"])
        });
        let gone = r#"! kill -0 "$(cat /late/process)""#;
        poll_until(PATIENCE, "it is killed", || {
            self.inside(&["sh", "-c", gone])
        });
        assert!(since.elapsed() < GRACE, "the machine did it");
    }
}

/// A command that writes down which process it is, and goes on.
fn long() -> Command {
    Command::shell("echo $$ >/late/process; exec sleep 1000")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_begins_in_a_container_after_its_timeout_is_killed() {
    muster_lab::require_docker!();
    let late = Late::start().await;
    let command = long().timeout(Duration::from_secs(5));
    let ended = tokio::time::timeout(PATIENCE, late.executor.run(&command)).await;
    let error = ended.expect("it has a clock").unwrap_err();
    assert_eq!(error.class, FailureClass::TimedOut, "{error}");
    assert!(late.inside(&["test", "-e", "/late/here"]));
    tokio::task::block_in_place(|| late.assert_killed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_begins_in_a_container_after_nobody_waits_any_more_is_killed() {
    muster_lab::require_docker!();
    let late = Late::start().await;
    let command = long();
    let read = async {
        while !late.inside(&["test", "-e", "/late/here"]) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let read = tokio::time::timeout(PATIENCE, read);
    tokio::select! {
        _ = late.executor.run(&command) => panic!("the shell has not begun"),
        read = read => read.expect("the shell has read"),
    }
    tokio::task::block_in_place(|| late.assert_killed());
}
