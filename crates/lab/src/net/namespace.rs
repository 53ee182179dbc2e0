//! Network namespaces without names: they exist as long as a descriptor or a process is in them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// Makes a namespace in a thread of its own, so that the caller stays where it is.
pub(super) fn create() -> io::Result<OwnedFd> {
    in_thread(|| {
        unshare_network()?;
        Ok(File::open("/proc/thread-self/ns/net")?.into())
    })
}

/// Runs `work` in a thread inside the namespace.
pub(super) fn run_inside<T: Send>(
    namespace: &OwnedFd,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    in_thread(|| {
        enter(namespace)?;
        Ok(work())
    })
}

/// Makes `command` enter the namespace before it becomes the program.
#[expect(unsafe_code, reason = "Command::pre_exec is unsafe by nature")]
pub(crate) fn enter_before_exec(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: the closure makes one system call on a descriptor that it owns; the child inherits the
    // descriptor table, so the number is valid there, and nothing is allocated or locked.
    unsafe {
        command.pre_exec(move || enter(&namespace));
    }
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

#[expect(
    unsafe_code,
    reason = "unshare can take the file descriptor table away from others"
)]
fn unshare_network() -> io::Result<()> {
    // SAFETY: only the network namespace of the calling thread changes; memory, descriptors and
    // signals stay shared as Rust expects.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Namespaces belong to threads: this one ends, and nothing has to be restored.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
