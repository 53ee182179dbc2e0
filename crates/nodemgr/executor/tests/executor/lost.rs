//! Connections that fall silent, hang or go, and commands that nobody waits for any more.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_executor::script::GRACE;
use muster_executor::ssh::{SshAccess, SshExecutor};
use muster_executor::{Command, Executor as _, FailureClass};
use rustix::process::{Pid, test_kill_process};

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server};
use crate::ssh::can_log_in;

/// Looks until something is so.
pub(crate) async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The process that a command has written down.
pub(crate) async fn process_in(file: &Path) -> Pid {
    let read = || {
        let written = fs::read_to_string(file).ok()?;
        Pid::from_raw(written.strip_suffix('\n')?.parse().ok()?)
    };
    until("the command has begun", || read().is_some()).await;
    read().unwrap()
}

/// A command that writes down which process it is, and goes on.
fn long(file: &Path) -> Command {
    Command::shell(r#"echo $$ >"$0"; exec sleep 1000"#).arg(file)
}

#[tokio::test]
async fn a_machine_that_falls_silent_interrupts_what_runs() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let access = SshAccess {
        keepalive: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        ..server.access_by(proxy.port)
    };
    let executor = SshExecutor::new(access);
    let forever = Command::new("sleep").arg("1000");
    let running = executor.run(&forever).await.unwrap();
    proxy.fall_silent();
    let since = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, running.wait()).await;
    let error = ended.expect("it is noticed").unwrap_err();
    assert_eq!(error.class, FailureClass::Interrupted, "{error}");
    // Three questions of a second each, and no more than the same again on a busy machine.
    assert!(
        since.elapsed() < Duration::from_secs(8),
        "{:?}",
        since.elapsed()
    );
    let error = executor.probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unreachable, "{error}");
}

#[tokio::test]
async fn a_connection_that_is_never_made_holds_up_no_other() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let access = SshAccess {
        connect_timeout: Duration::from_secs(600),
        ..server.access_by(proxy.port)
    };
    let executor = SshExecutor::new(access);
    // As many as one connection carries, and more: for those another one is wanted.
    let first = executor.run(&Command::new("cat").input()).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..7 {
        others.push(executor.run(&Command::new("cat").input()).await.unwrap());
    }
    proxy.ignore_more();
    let waiting = {
        let executor = executor.clone();
        tokio::spawn(async move { executor.probe().await })
    };
    let more = Command::new("true");
    let blocked = tokio::time::timeout(Duration::from_millis(300), executor.run(&more)).await;
    assert!(blocked.is_err(), "the connection is full");
    drop(first);
    // What ends makes room, for whoever waits and whoever comes.
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.expect("there is room").unwrap().unwrap();
    let came = tokio::time::timeout(PATIENCE, executor.probe()).await;
    came.expect("there is room").unwrap();
    drop(others);
}

/// A server whose shell does not begin before there is a file `go`; `here` tells that it has read what it shall do.
fn hesitant() -> Server {
    let server = Server::start();
    let script = format!(
        "#!/bin/sh\ncd '{}' || exit\nif [ ! -e go ]; then IFS= read -r line; : >here\n\
         while [ ! -e go ]; do sleep 0.02; done\neval \"$line\"; exit; fi\nexec /bin/sh \"$@\"\n",
        server.path(".").display()
    );
    let shell = server.path("bin/sh");
    fs::write(&shell, script).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    server
}

#[tokio::test]
async fn what_begins_after_its_timeout_is_killed() {
    if !can_log_in() {
        return;
    }
    let server = hesitant();
    let executor = server.executor();
    let file = server.path("process");
    let late = long(&file).timeout(Duration::from_secs(1));
    let error = executor.run(&late).await.unwrap_err();
    assert_eq!(error.class, FailureClass::TimedOut, "{error}");
    assert!(server.path("here").exists());
    let since = Instant::now();
    fs::write(server.path("go"), "").unwrap();
    let process = process_in(&file).await;
    until("it is killed", || test_kill_process(process).is_err()).await;
    assert!(since.elapsed() < GRACE, "the machine did it");
}

#[tokio::test]
async fn what_begins_after_nobody_waits_any_more_is_killed() {
    if !can_log_in() {
        return;
    }
    let server = hesitant();
    let executor = server.executor();
    let file = server.path("process");
    let unwanted = long(&file);
    {
        let run = executor.run(&unwanted);
        let here = server.path("here");
        let read = until("the shell has read", || here.exists());
        tokio::select! {
            _ = run => panic!("the shell has not begun"),
            () = read => {}
        }
    }
    fs::write(server.path("go"), "").unwrap();
    let process = process_in(&file).await;
    until("it is killed", || test_kill_process(process).is_err()).await;
}

#[tokio::test]
async fn a_command_whose_connection_is_cut_does_not_outlive_its_timeout_for_long() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let file = server.path("process");
    let command = long(&file).timeout(Duration::from_secs(3));
    let running = executor.run(&command).await.unwrap();
    let process = process_in(&file).await;
    proxy.cut_after(0);
    proxy.ignore_more();
    // Something must pass, or nothing is cut.
    let nudge = tokio::time::timeout(Duration::from_millis(100), executor.probe()).await;
    assert!(nudge.is_err(), "no connection is made any more");
    let error = running.wait().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Interrupted, "{error}");
    assert!(test_kill_process(process).is_ok(), "nobody has killed it");
    until("the machine kills it", || {
        test_kill_process(process).is_err()
    })
    .await;
}
