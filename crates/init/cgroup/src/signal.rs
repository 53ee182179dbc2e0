//! Signals for all processes of a group, and for no other.

use std::collections::HashSet;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::CgroupError;

/// A group whose members fork as fast as they are found is given up after so many looks; SIGKILL never comes here where
/// the kernel can kill a group at once.
const MAX_ROUNDS: usize = 64;

/// Sends a signal to every process that `members` lists, and again to those that appear meanwhile, each once.
///
/// A number in a list says nothing about which process has it by the time a signal is sent. So a descriptor is opened
/// for each, then the list is read anew: a number that is still listed belongs to the group, and either its descriptor
/// is of the same process or that process is gone and the signal reaches nobody.
pub(crate) fn signal_members(
    signal: Signal,
    mut members: impl FnMut() -> Result<Vec<Pid>, CgroupError>,
) -> Result<usize, CgroupError> {
    let mut done = HashSet::new();
    let mut listed = members()?;
    for _ in 0..MAX_ROUNDS {
        let fresh = listed.iter().filter(|pid| !done.contains(*pid));
        let opened: Vec<(Pid, OwnedFd)> =
            fresh.filter_map(|pid| Some((*pid, open(*pid)?))).collect();
        if opened.is_empty() {
            break;
        }
        listed = members()?;
        let still: HashSet<Pid> = listed.iter().copied().collect();
        for (pid, descriptor) in opened {
            if still.contains(&pid) && send(&descriptor, signal) {
                done.insert(pid);
            }
        }
    }
    Ok(done.len())
}

/// `None` when the process is gone.
fn open(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether the process was there to get it.
fn send(descriptor: &OwnedFd, signal: Signal) -> bool {
    match pidfd_send_signal(descriptor, signal) {
        Ok(()) => true,
        Err(error) => error != Errno::SRCH,
    }
}
