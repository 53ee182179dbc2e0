//! One process at a time changes an authority.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::layout;

/// How long others may take; signing takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Held for as long as it exists. The kernel gives it up with the process, so it is never stale.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock file cannot be made or locked.
    #[error("cannot lock {}", path.display())]
    Unavailable {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody else has it all the time.
    #[error("another process has been signing in {} for {PATIENCE:?}; try again when it is done", folder.display())]
    Busy {
        /// The authority's folder.
        folder: PathBuf,
    },
}

impl FolderLock {
    pub(crate) fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(layout::LOCK);
        let failed = |source| LockError::Unavailable {
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(LockError::Busy {
                        folder: folder.to_owned(),
                    });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            }
        }
    }
}
