//! Real log daemons: journald and Muster's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_lab::machine::{Binaries, Build};
use muster_lab::program::{Process, Program};

use crate::rig::*;

/// journald alone, in namespaces of its own.
const JOURNALD: &str = r#"
set -eu
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount --bind /dev/null /dev/kmsg
mkdir -p /run/systemd/journal /var/log/journal
echo mounted
exec /usr/lib/systemd/systemd-journald
"#;

fn start_journald() -> Process {
    let mut process = Program::new("/usr/bin/unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", JOURNALD])
        .start()
        .expect("started");
    // Before that, the host's own sockets would be found.
    process.wait_for_line("mounted", TIME).expect("mounted");
    let socket = seen_from_here(&process, "/run/systemd/journal/io.systemd.journal");
    muster_lab::poll_until(TIME, "journald is up", || socket.exists());
    process
}

/// A path in the file system of a process.
fn seen_from_here(process: &Process, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{path}", process.pid()))
}

/// Runs a command beside journald.
fn beside(process: &Process, command: &str) {
    let output = Command::new("nsenter")
        .args(["-m", "-t", &process.pid().to_string(), "sh", "-c", command])
        .output()
        .expect("nsenter of the package util-linux");
    assert!(output.status.success(), "{command}: {output:?}");
}

#[tokio::test]
async fn journald_is_followed_over_rotation_and_vacuum() {
    muster_lab::require!(
        Root,
        Tool("unshare"),
        Tool("nsenter"),
        File("/usr/lib/systemd/systemd-journald")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let journald = start_journald();
    let dir = seen_from_here(&journald, "/var/log/journal");
    // It writes to memory until it is told that there is a disk.
    beside(
        &journald,
        "journalctl --flush; echo history | systemd-cat -t before -p err; journalctl --sync",
    );
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    let say = |text: &str| {
        beside(
            &journald,
            &format!("echo '{text}' | systemd-cat -t prog -p err"),
        );
    };
    say("first");
    let found = node.take_until("first").await;
    assert_eq!(
        found.iter().map(text).collect::<Vec<_>>().len(),
        1,
        "{found:?}"
    );
    beside(
        &journald,
        "journalctl --rotate; journalctl --vacuum-files=1 2>/dev/null",
    );
    say("second");
    let found = node.take_until("second").await;
    assert!(
        found.iter().all(|alert| !text(alert).contains("removed")),
        "{found:?}"
    );
    node.stop().await;

    // Unread entries go with their file.
    say("never seen");
    beside(&journald, "journalctl --rotate");
    say("third");
    beside(
        &journald,
        "journalctl --sync; rm /var/log/journal/*/*@*.journal",
    );
    let node = Node::follow(folder.path(), &[&dir]).await;
    let found = node.take_until("third").await;
    assert!(
        text(&found[0]).contains("removed before they were looked at"),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .all(|alert| !text(alert).contains("never seen"))
    );
    node.stop().await;
}

struct Logd {
    process: Process,
    folder: PathBuf,
}

fn start_logd(folder: &Path) -> Logd {
    let programs = Binaries::build(Build::Test, &[("muster-logd", "muster-logd")], &[]);
    let programs = programs.expect("built");
    std::fs::write(folder.join("logd.conf"), "[Journal]\nStorage=persistent\n").expect("written");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let mut program = Program::new(programs.path("muster-logd")).arg("--no-kmsg");
    for (option, name) in [
        ("--config", "logd.conf"),
        ("--state", "state"),
        ("--runtime-journal", "run"),
        ("--journal", "var"),
        ("--varlink", "varlink"),
        ("--native", "native"),
        ("--machine-id", "machine-id"),
    ] {
        program = program.arg(option).arg(path(name));
    }
    let native = folder.join("native");
    // What an earlier one has left is no sign of life.
    let _ = std::fs::remove_file(&native);
    let process = program.start().expect("started");
    muster_lab::poll_until(TIME, "the log daemon is up", || native.exists());
    Logd {
        process,
        folder: folder.to_owned(),
    }
}

impl Logd {
    fn say(&self, priority: u8, text: &str) {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        socket.set_write_timeout(Some(TIME)).expect("set");
        let message = format!("MESSAGE={text}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER=prog\n");
        socket
            .send_to(message.as_bytes(), self.folder.join("native"))
            .expect("sent");
    }
}

#[tokio::test]
async fn musters_log_daemon_is_followed_over_its_restart() {
    muster_lab::require!(Root);
    let folder = tempfile::tempdir().expect("a folder");
    let mut logd = start_logd(folder.path());
    let dirs = [folder.path().join("run"), folder.path().join("var")];
    let dirs: Vec<&Path> = dirs.iter().map(AsRef::as_ref).collect();
    let node = Node::follow(folder.path(), &dirs).await;
    node.has_begun().await;
    logd.say(3, "first");
    logd.say(6, "of no interest");
    let found = node.take_until("first").await;
    assert_eq!(found.len(), 1, "{found:?}");
    logd.process
        .terminate(Duration::from_secs(10))
        .expect("ended");
    node.stop().await;
    let logd = start_logd(folder.path());
    logd.say(2, "second");
    let node = Node::follow(folder.path(), &dirs).await;
    let found = node.take_until("second").await;
    assert_eq!(found.len(), 1, "{found:?}");
    node.stop().await;
}
