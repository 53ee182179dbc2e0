//! The program under test, in the rig's own mount namespace.
//!
//! [`Program`](crate::program::Program) starts processes from a thread of its own, which does not see
//! this thread's mounts; so the rig starts its program itself.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// A process group that does not outlive its owner.
#[derive(Debug)]
pub(super) struct OwnedChild {
    child: Child,
}

impl OwnedChild {
    /// Starts the command as the leader of a process group. It dies with the calling thread.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0);
        #[expect(unsafe_code, reason = "Command::pre_exec is unsafe by nature")]
        // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                Ok(())
            });
        }
        Ok(Self {
            child: command.spawn()?,
        })
    }

    /// Waits for the end of its leader; `None` when the time is up.
    pub(super) fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut wanted = [PollFd::new(&process, PollFlags::IN)];
            match poll(&mut wanted, Some(&timeout)) {
                Ok(0) => return Ok(None),
                Ok(_) => return self.child.wait().map(Some),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // The leader is not reaped before this, so the group's number cannot belong to others;
        // if it was, its number is gone or still held by what it left behind.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
