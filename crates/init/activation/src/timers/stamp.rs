//! When persistent timers last fired. Each has a file whose modification time is that moment, as systemd's are, so that
//! stamps can be taken over by copying the folder.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use thiserror::Error;

use crate::folders;

const MICROS: i64 = 1_000_000;

/// A stamp cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StampError {
    /// It cannot be read.
    #[error("cannot read the time stamp {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// It cannot be written.
    #[error("cannot write the time stamp {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// The folder of the stamps.
#[derive(Clone, Debug)]
pub struct StampFolder {
    folder: PathBuf,
}

impl StampFolder {
    /// Keeps stamps in this folder, which is made with the first of them.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// When this timer last fired, in microseconds since 1970; `None` if it never did.
    ///
    /// # Errors
    /// The file is there but cannot be read.
    pub fn read(&self, unit: &str) -> Result<Option<i64>, StampError> {
        let path = self.path(unit);
        match rustix::fs::stat(&path) {
            Ok(stat) => {
                let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
                let seconds = stat.st_mtime.saturating_mul(MICROS);
                Ok(Some(seconds.saturating_add(nanos / 1000)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(source) => Err(StampError::Read { path, source }),
        }
    }

    /// Records that this timer fired at that moment. The disk is not waited for: after a power cut the moment before may
    /// be found, and a timer fires once more rather than the manager being held up by a slow disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, unit: &str, at: i64) -> Result<(), StampError> {
        let path = self.path(unit);
        let write = || {
            let flags = OFlags::WRONLY
                | OFlags::CREATE
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW
                | OFlags::NOCTTY;
            let mode = Mode::from_raw_mode(0o644);
            let file = match rustix::fs::open(&path, flags, mode) {
                Err(Errno::NOENT) => {
                    let folder = self.folder.to_str().ok_or(Errno::INVAL)?;
                    folders::make_all(folder, 0o755)?;
                    rustix::fs::open(&path, flags, mode)?
                }
                result => result?,
            };
            let moment = Timespec {
                tv_sec: at.div_euclid(MICROS),
                tv_nsec: at.rem_euclid(MICROS) * 1000,
            };
            let times = Timestamps {
                last_access: moment,
                last_modification: moment,
            };
            rustix::fs::futimens(&file, &times)
        };
        write().map_err(|source| StampError::Write { path, source })
    }

    /// Forgets when this timer last fired.
    ///
    /// # Errors
    /// The file is there but cannot be removed.
    pub fn remove(&self, unit: &str) -> Result<(), StampError> {
        let path = self.path(unit);
        match rustix::fs::unlinkat(CWD, &path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(source) => Err(StampError::Write { path, source }),
        }
    }

    fn path(&self, unit: &str) -> PathBuf {
        self.folder.join(format!("stamp-{unit}"))
    }
}
