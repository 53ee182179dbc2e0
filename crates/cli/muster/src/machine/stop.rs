//! Ending a node manager.

use std::io;
use std::path::{Path, PathBuf};

use muster_machine_api::places::Places;
use muster_machine_api::v1;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::UnixStream;

use super::MachineCommandError;
use super::client::Manager;
use crate::cli::machine::Connection;
use crate::console::Console;
use crate::error::CommandError;

/// How long it may take to end: what it does with machines is brought to where another manager goes on.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// Why a node manager was not ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopManagerError {
    #[error("who listens at {} is not the node manager that answers there; end that one where it was started", .0.display())]
    Another(PathBuf),
    #[error("cannot end process {pid}, the node manager")]
    Signal { pid: u32, source: io::Error },
    #[error("the node manager, process {pid}, has not ended after {} s", PATIENCE.tv_sec)]
    Lasts { pid: u32 },
}

/// Ends the manager that is named, or one's own, and waits until it has. Machines stay as they are.
pub(super) async fn stop(
    connection: &Connection,
    console: &mut Console,
) -> Result<(), CommandError> {
    let usual = || Places::of_process().socket;
    let socket = connection.manager.clone().unwrap_or_else(usual);
    let manager = Manager::connect(&socket).await;
    let manager = manager.map_err(MachineCommandError::Connect)?;
    let request = v1::GetManagerRequest {};
    let told = manager.ask("GetManager", async |mut it| it.get_manager(request).await);
    let told = told.await.map_err(MachineCommandError::Call)?;
    let ended = end(&socket, told.pid).await;
    ended.map_err(MachineCommandError::Stop)?;
    console.note(format_args!(
        "muster: the node manager (process {}) has ended; its machines stay as they are",
        told.pid
    ));
    Ok(())
}

async fn end(socket: &Path, pid: u32) -> Result<(), StopManagerError> {
    let another = || StopManagerError::Another(socket.to_owned());
    // A number of another namespace would be somebody else here: the kernel says who listens.
    let listener = UnixStream::connect(socket).await;
    let listener = listener.and_then(|it| it.peer_cred()).ok();
    let listener = listener.and_then(|it| it.pid()).ok_or_else(another)?;
    if u32::try_from(listener) != Ok(pid) {
        return Err(another());
    }
    let process = Pid::from_raw(listener).ok_or_else(another)?;
    let failed = |source| StopManagerError::Signal { pid, source };
    let process = pidfd_open(process, PidfdFlags::empty()).map_err(|it| failed(it.into()))?;
    pidfd_send_signal(&process, Signal::TERM).map_err(|it| failed(it.into()))?;
    // It can be read once the process has ended.
    let awaited = tokio::task::spawn_blocking(move || {
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut ends, Some(&PATIENCE))
    });
    match awaited.await.map_err(|it| failed(it.into()))? {
        Ok(0) => Err(StopManagerError::Lasts { pid }),
        Ok(_) => Ok(()),
        Err(error) => Err(failed(error.into())),
    }
}
