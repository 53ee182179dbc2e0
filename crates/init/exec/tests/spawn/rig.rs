//! Starting processes and hearing what they say.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_exec::{ExecContext, Launch, Prepared, Slot, SpawnError, Spawned, Spawner, Stream};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// A shell that runs a script and writes to the first descriptor of the list.
pub(crate) fn shell(script: &str) -> ExecContext {
    ExecContext {
        program: "/bin/sh".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        environment: vec!["PATH=/usr/bin:/bin".into()],
        stdout: Stream::Fd(0),
        ..ExecContext::default()
    }
}

pub(crate) fn program(path: &str) -> ExecContext {
    ExecContext {
        program: path.into(),
        argv: vec![path.into()],
        ..ExecContext::default()
    }
}

pub(crate) fn spawn(
    context: &ExecContext,
    fds: &[BorrowedFd<'_>],
    launch: &Launch<'_>,
) -> Result<Spawned, SpawnError> {
    let mut spawner = Spawner::new().unwrap();
    let (mut slot, _memory) = Slot::create().unwrap();
    let mut prepared = Prepared::new(context, fds)?;
    spawner.spawn(&mut prepared, launch, &mut slot)
}

/// Runs a context to its end with a pipe as the first descriptor, and gives what came through it.
pub(crate) fn output_with(context: &ExecContext, more: &[BorrowedFd<'_>]) -> String {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut fds = vec![writer.as_fd()];
    fds.extend_from_slice(more);
    let spawned = spawn(context, &fds, &Launch::default()).unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(wait(spawned.pid).exit_status(), Some(0), "{text}");
    text
}

pub(crate) fn output(context: &ExecContext) -> String {
    output_with(context, &[])
}

pub(crate) fn wait(pid: Pid) -> WaitStatus {
    waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1
}

pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped, it needs root");
    }
    root
}

/// The descriptors of this process.
pub(crate) fn own_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A terminal: the side of whoever types, and the path of the other.
pub(crate) fn terminal() -> (OwnedFd, String) {
    let typist = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::grantpt(&typist).unwrap();
    rustix::pty::unlockpt(&typist).unwrap();
    let path = rustix::pty::ptsname(&typist, Vec::new()).unwrap();
    (typist, path.into_string().unwrap())
}
