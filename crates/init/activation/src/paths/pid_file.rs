//! PID files. Who wrote one decides whether it is believed, so that is told along with the number.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags};
use thiserror::Error;

/// More than any number and its line end.
const MAX_LENGTH: u64 = 64;

/// What a PID file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidFile {
    /// The process; not checked to exist.
    pub pid: u32,
    /// Only root could have written it. A process outside of the unit's cgroup may be named only by such a file.
    pub written_by_root: bool,
}

/// Why a PID file says nothing.
#[derive(Debug, Error)]
pub enum ReadPidFileError {
    /// It is not there (yet).
    #[error("there is no PID file {path}")]
    Missing {
        /// The file.
        path: Box<str>,
    },
    /// It cannot be read.
    #[error("cannot read the PID file {path}")]
    Read {
        /// The file.
        path: Box<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds something else, or only a part of a number so far.
    #[error("the PID file {path} does not hold the number of a process")]
    NotANumber {
        /// The file.
        path: Box<str>,
    },
}

/// Reads a PID file.
///
/// # Errors
/// It is missing, unreadable or holds no number.
pub fn read_pid_file(path: &str) -> Result<PidFile, ReadPidFileError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => ReadPidFileError::Missing { path: path.into() },
        _ => ReadPidFileError::Read {
            path: path.into(),
            source,
        },
    };
    // A FIFO in its place must not hold us up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| failed(error.into()))?);
    let owner = file.metadata().map_err(failed)?.uid();
    let link_owner = std::fs::symlink_metadata(path).map_or(owner, |metadata| metadata.uid());
    let mut text = String::new();
    file.take(MAX_LENGTH)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let not_a_number = || ReadPidFileError::NotANumber { path: path.into() };
    let pid: u32 = text.trim().parse().map_err(|_| not_a_number())?;
    if pid < 2 || i32::try_from(pid).is_err() {
        return Err(not_a_number());
    }
    Ok(PidFile {
        pid,
        written_by_root: owner == 0 && link_owner == 0,
    })
}
