//! Processes: started, adopted, signalled, looked at.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use muster_engine::ids::ActionId;
use muster_engine::protocol::{Process, SpawnError};
use muster_exec::{ExecContext, Launch as ExecLaunch, Parent, Prepared, Spawned};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{RealPlatform, cgroups};
use crate::platform::{Launch, Platform, ProcessFacts};

/// The kind of file system that pidfds of newer kernels live in; only there do inodes name processes.
const PIDFS_MAGIC: u64 = 0x5049_4446;
/// systemd's exit code for "the cgroup could not be set up".
const EXIT_CGROUP: u8 = 219;

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn inode_of(pidfd: &OwnedFd) -> u64 {
    // The kernel does not change while this program runs.
    static NAMED: OnceLock<bool> = OnceLock::new();
    let named = *NAMED.get_or_init(|| {
        let magic = rustix::fs::fstatfs(pidfd).map(|stat| stat.f_type);
        magic.is_ok_and(|magic| u64::try_from(magic) == Ok(PIDFS_MAGIC))
    });
    if !named {
        return 0;
    }
    rustix::fs::fstat(pidfd).map_or(0, |stat| stat.st_ino)
}

impl RealPlatform {
    pub(super) fn start(
        &mut self,
        action: ActionId,
        launch: &Launch<'_>,
    ) -> Result<Process, SpawnError> {
        let refused = |error: io::Error| SpawnError {
            step: format!("cgroup: {error}").into(),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            exit_code: EXIT_CGROUP,
            early: false,
        };
        let path = cgroups::path(launch.cgroup).map_err(refused)?;
        let target = self.target_of(&path).map_err(refused)?;
        let joins = self.tree.joins(&path).map_err(io::Error::other);
        let joins = joins.map_err(refused)?;
        let mut prepared = Prepared::new(launch.context, launch.descriptors)
            .map_err(|error| failed(&error.into()))?;
        self.slot.begin(action.0);
        let how = ExecLaunch {
            cgroup: Some(&target),
            joins: &joins,
            parent: Parent::Same,
        };
        let spawned = self.spawner.spawn(&mut prepared, &how, &mut self.slot);
        let spawned = self.live_on(spawned).map_err(|error| failed(&error))?;
        self.tree.record(&path, spawned.pid);
        let pid = u32::try_from(spawned.pid.as_raw_nonzero().get()).unwrap_or_default();
        self.pidfds.insert(pid, spawned.pidfd);
        Ok(Process {
            pid,
            pidfd_inode: spawned.pidfd_inode,
            cgroup: launch.cgroup.into(),
            invocation: launch.invocation,
        })
    }

    /// A helper of the manager's: a child of `muster-init` too, which reaps it, but no unit's process.
    pub(super) fn start_own(
        &mut self,
        context: &ExecContext,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut prepared = Prepared::new(context, descriptors).map_err(io::Error::other)?;
        self.slot.begin(0);
        let how = ExecLaunch {
            cgroup: None,
            joins: &[],
            parent: Parent::Same,
        };
        let spawned = self.spawner.spawn(&mut prepared, &how, &mut self.slot);
        let spawned = self.live_on(spawned);
        spawned.map(drop).map_err(io::Error::other)
    }

    /// A start that somebody held up has taken seconds, and more of them may follow before `muster-init` is heard again: it gets
    /// its sign of life after each.
    fn live_on(
        &mut self,
        spawned: Result<Spawned, muster_exec::SpawnError>,
    ) -> Result<Spawned, muster_exec::SpawnError> {
        if matches!(&spawned, Err(error) if error.errno == libc::ETIMEDOUT) {
            self.pong();
        }
        spawned
    }

    pub(super) fn take_over(&mut self, process: &Process) -> bool {
        let Some(pid) = pid_of(process.pid) else {
            return false;
        };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        if process.pidfd_inode != 0 && inode_of(&pidfd) != process.pidfd_inode {
            return false;
        }
        if let Ok(path) = cgroups::path(&process.cgroup) {
            self.tree.record(&path, pid);
        }
        self.pidfds.insert(process.pid, pidfd);
        true
    }

    /// A process was reaped: trees without cgroups know sessions by numbers, and this one may be anybody's now.
    pub(super) fn tree_forgets(&self, pid: u32) {
        if let Some(pid) = pid_of(pid) {
            self.tree.reaped(pid);
        }
    }

    pub(super) fn send_signal(&mut self, pid: u32, signal: u8) -> io::Result<()> {
        let pidfd = self.pidfds.get(&pid).ok_or(io::ErrorKind::NotFound)?;
        let signal = cgroups::signal(signal)?;
        pidfd_send_signal(pidfd.as_fd(), signal)?;
        Ok(())
    }

    pub(super) fn facts_of(&self, pid: u32) -> Option<ProcessFacts> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may hold anything, so fields are counted from its end.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let pidfd = pidfd_open(pid_of(pid)?, PidfdFlags::empty()).ok()?;
        Some(ProcessFacts {
            cgroup: self.cgroup_of(pid),
            parent: fields.get(1)?.parse().ok()?,
            pidfd_inode: inode_of(&pidfd),
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

fn failed(error: &muster_exec::SpawnError) -> SpawnError {
    SpawnError {
        step: error.to_string().into(),
        errno: error.errno,
        exit_code: error.exit_code(),
        early: false,
    }
}

/// A command line as people read it; the program's name in brackets where there is none.
pub(super) fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    if words.is_empty() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return format!("[{}]", name.trim_end());
    }
    let text = String::from_utf8_lossy(words);
    text.replace('\0', " ")
}

/// Signals that exist.
pub(super) fn known_signal(number: u8) -> Option<Signal> {
    Signal::from_named_raw(i32::from(number))
}
