//! Who of a unit's commands fills its folder.
//!
//! Commands that start at the same moment must not both mount, since only one mount would be removed. So each locks the
//! folder that is mounted on. Nobody else can: it is closed to all others until it is filled, and no folder that others may
//! open is ever locked. Filling it may take as long as a service takes that is asked for a secret, and that service may need
//! secrets of its own, so units do not wait for each other.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Nobody but the maker enters a folder that is not filled yet.
const MODE: u32 = 0o700;
/// How long there is between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(10);

/// What came of asking for a folder.
pub(super) enum Claim {
    /// It is this process's to fill, as long as this is open.
    Ours(OwnedFd),
    /// Another command has filled it.
    Filled,
}

/// Makes the folder and waits until no other command fills it.
///
/// # Errors
/// It cannot be made, or another command takes longer than `patience`, which is [`Errno::TIMEDOUT`].
pub(super) fn take(path: &Path, patience: Duration) -> Result<Claim, Errno> {
    let end = Instant::now() + patience;
    let above = path.parent().ok_or(Errno::INVAL)?;
    let above = rustix::fs::stat(above)?.st_dev;
    loop {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        // What is mounted already is never locked: the unit's user may lock it too.
        let seen = path.symlink_metadata();
        if seen.is_ok_and(|seen| seen.dev() != above) {
            return Ok(Claim::Filled);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            // The manager has just put it away.
            Err(Errno::NOENT) if Instant::now() < end => continue,
            opened => opened?,
        };
        if rustix::fs::fstat(&folder)?.st_dev != above {
            return Ok(Claim::Filled);
        }
        lock(&folder, end)?;
        // While this one waited, another has filled it, or the manager has put it away.
        if is_at(path, &folder)? {
            return Ok(Claim::Ours(folder));
        }
    }
}

/// Whether a path still leads to a folder.
fn is_at(path: &Path, folder: &OwnedFd) -> Result<bool, Errno> {
    let own = rustix::fs::fstat(folder)?;
    let seen = path.symlink_metadata();
    Ok(seen.is_ok_and(|seen| (seen.dev(), seen.ino()) == (own.st_dev, own.st_ino)))
}

/// The kernel waits for a lock without an end, or not at all.
fn lock(folder: &OwnedFd, end: Instant) -> Result<(), Errno> {
    loop {
        match rustix::fs::flock(folder.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(Errno::TIMEDOUT),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
