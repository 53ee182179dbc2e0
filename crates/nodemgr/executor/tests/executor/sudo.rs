//! Commands that become somebody else whom the user who logged in may not kill.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_executor::{Command, Executor as _, FailureClass};
use rustix::process::{Pid, test_kill_process};

use crate::lost::{process_in, until};
use crate::proxy::Proxy;
use crate::server::{PATIENCE, Rules, Server};
use crate::ssh::can_log_in;

/// The visitor may become anybody; a command stays in the group that it was started in.
pub(crate) const PLAIN: Rules = Rules {
    sudoers: "Defaults !use_pty\nvisitor ALL=(ALL) NOPASSWD: ALL",
    proc: "",
};

/// Each command of another gets a terminal, and so a group, of its own.
pub(crate) const PTY: Rules = Rules {
    sudoers: "Defaults use_pty\nvisitor ALL=(ALL) NOPASSWD: ALL",
    proc: "",
};

/// Nobody sees the processes of others.
pub(crate) const HIDDEN: Rules = Rules {
    sudoers: PLAIN.sudoers,
    proc: "hidepid=2",
};

/// The visitor may not become root.
pub(crate) const ONE_OTHER: Rules = Rules {
    sudoers: "Defaults !use_pty\nvisitor ALL=(nobody) NOPASSWD: ALL",
    proc: "",
};

/// A command that does what somebody else does who writes down which process it is.
pub(crate) fn becoming(user: &str, file: &Path) -> Command {
    let script = r#"trap '' HUP TERM; echo $$ >"$0"; while :; do sleep 1; done"#;
    Command::shell(script).arg(file).user(user)
}

/// One that becomes root by itself.
fn becoming_root_later(file: &Path) -> Command {
    let script = r#"sudo -n sh -c 'trap "" HUP TERM; echo $$ >"$0"; while :; do sleep 1; done' "$0"; sleep 1000"#;
    Command::shell(script).arg(file)
}

/// A server, and a file into which everybody may write. It takes a while, which is none of a command's time: so all servers of a test
/// are there before its first command.
fn server(rules: Rules) -> (Server, PathBuf) {
    let server = Server::start_for_visitors(rules);
    let folder = server.path("everybody");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.join("process");
    (server, file)
}

async fn until_gone(process: Pid) {
    until("it is killed", || test_kill_process(process).is_err()).await;
}

/// Starts a command, and gives nobody the wish to have it: with a timeout something of it is the visitor's own, without one
/// nothing may be.
async fn cancelled(
    (server, file): (Server, PathBuf),
    command: impl Fn(&Path) -> Command,
    timeout: Option<Duration>,
) {
    let executor = server.visit_by(server.port);
    let mut command = command(&file);
    command.timeout = timeout;
    let running = executor.run(&command).await.unwrap();
    let process = process_in(&file).await;
    drop(running);
    until_gone(process).await;
}

async fn late((server, file): (Server, PathBuf), command: impl Fn(&Path) -> Command) {
    let executor = server.visit_by(server.port);
    let command = command(&file).timeout(Duration::from_secs(5));
    let running = executor.run(&command).await.unwrap();
    let process = process_in(&file).await;
    let error = running.wait().await.unwrap_err();
    assert_eq!(error.class, FailureClass::TimedOut, "{error}");
    until_gone(process).await;
}

async fn cut((server, file): (Server, PathBuf), command: impl Fn(&Path) -> Command) {
    let proxy = Proxy::start(server.port).await;
    let executor = server.visit_by(proxy.port);
    let command = command(&file).timeout(Duration::from_secs(6));
    let running = executor.run(&command).await.unwrap();
    let process = process_in(&file).await;
    proxy.cut_after(0);
    proxy.ignore_more();
    // Something must pass, or nothing is cut.
    let nudge = tokio::time::timeout(Duration::from_millis(100), executor.probe()).await;
    assert!(nudge.is_err(), "no connection is made any more");
    let ended = tokio::time::timeout(PATIENCE, running.wait()).await;
    let error = ended.expect("it is noticed").unwrap_err();
    assert_eq!(error.class, FailureClass::Interrupted, "{error}");
    assert!(test_kill_process(process).is_ok(), "nobody has killed it");
    until_gone(process).await;
}

fn as_root(file: &Path) -> Command {
    becoming("root", file)
}

fn as_nobody(file: &Path) -> Command {
    becoming("nobody", file)
}

#[tokio::test]
async fn a_command_of_root_is_killed_when_nobody_wants_it_whoever_logged_in() {
    if !can_log_in() {
        return;
    }
    let hour = Some(Duration::from_secs(3600));
    tokio::join!(
        cancelled(server(PLAIN), as_root, hour),
        // Then all that is left of the group is root's.
        cancelled(server(PLAIN), as_root, None),
        cancelled(server(PLAIN), becoming_root_later, hour),
        cancelled(server(PTY), as_root, hour),
        cancelled(server(HIDDEN), as_root, hour),
        cancelled(server(ONE_OTHER), as_nobody, hour),
    );
}

#[tokio::test]
async fn a_command_of_root_is_killed_at_its_timeout_whoever_logged_in() {
    if !can_log_in() {
        return;
    }
    tokio::join!(
        late(server(PLAIN), as_root),
        late(server(PLAIN), becoming_root_later),
        late(server(PTY), as_root),
        late(server(HIDDEN), as_root),
        late(server(ONE_OTHER), as_nobody),
    );
}

#[tokio::test]
async fn a_command_of_root_whose_connection_is_cut_does_not_outlive_its_timeout_for_long() {
    if !can_log_in() {
        return;
    }
    tokio::join!(
        cut(server(PLAIN), as_root),
        cut(server(PLAIN), becoming_root_later),
        cut(server(PTY), as_root),
        cut(server(HIDDEN), as_root),
        cut(server(ONE_OTHER), as_nobody),
    );
}
