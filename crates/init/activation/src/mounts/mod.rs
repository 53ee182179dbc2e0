//! The kernel's tables of mounts and swaps, and what changed in them.
//!
//! [`MountWatch`] and [`SwapWatch`] own the table's descriptor. The caller waits on it for *priority* events (`EPOLLPRI`)
//! and then calls `refresh`, which reads the table once and gives the difference to the last time.
//!
//! # Storms
//!
//! Ten thousand mounts are ten thousand events on a table of ten thousand lines. Reading after each would cost the square
//! of that, so the caller spaces its reads by [`Pace`]: the first change is seen at once, and while changes keep coming
//! reading takes only a small share of the time. A line that was there before costs its hash and nothing else: it is
//! neither split nor copied.
//!
//! Both tables are text with octal escapes, parsed without panics; a line that cannot be read is counted and skipped.

mod line;
mod pace;
mod swaps;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use thiserror::Error;

use crate::folders;
pub use line::{MountLine, ParseMountLineError};
pub use pace::Pace;
pub use swaps::{SwapChange, SwapTable};
pub use table::{MountChange, MountEntry, MountTable};

/// A place that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot make the mount point {place}")]
pub struct MakeMountPointError {
    /// The place.
    pub place: Box<str>,
    /// Why.
    #[source]
    pub source: Errno,
}

/// Makes a place to mount something at, and the folders above it. One that exists, be it a file, stays as it is.
///
/// # Errors
/// A folder cannot be made.
pub fn make_mount_point(place: &str, mode: u16) -> Result<(), MakeMountPointError> {
    match folders::make_all(place, mode) {
        Ok(()) => Ok(()),
        Err(_) if Path::new(place).exists() => Ok(()),
        Err(source) => Err(MakeMountPointError {
            place: place.into(),
            source,
        }),
    }
}

/// Larger than the table of any machine that still works.
const MAX_TABLE: u64 = 256 << 20;

/// Why a table cannot be looked at.
#[derive(Debug, Error)]
pub enum ReadTableError {
    /// It cannot be opened.
    #[error("cannot open {path}")]
    Open {
        /// The table.
        path: Box<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The table.
        path: Box<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is larger than what is taken.
    #[error("{path} is larger than 256 MiB")]
    TooLarge {
        /// The table.
        path: Box<str>,
    },
}

/// An open table.
#[derive(Debug)]
struct TableFile {
    file: File,
    path: Box<str>,
}

impl TableFile {
    fn open(path: &Path) -> Result<Self, ReadTableError> {
        let shown: Box<str> = path.to_string_lossy().into();
        match File::open(path) {
            Ok(file) => Ok(Self { file, path: shown }),
            Err(source) => Err(ReadTableError::Open {
                path: shown,
                source,
            }),
        }
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> Result<(), ReadTableError> {
        buffer.clear();
        let read = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&mut self.file).take(MAX_TABLE).read_to_end(buffer));
        match read {
            Ok(length) if length as u64 == MAX_TABLE => Err(ReadTableError::TooLarge {
                path: self.path.clone(),
            }),
            Ok(_) => Ok(()),
            Err(source) => Err(ReadTableError::Read {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

/// The mounts of this process's namespace.
#[derive(Debug)]
pub struct MountWatch {
    file: TableFile,
    table: MountTable,
}

impl MountWatch {
    /// Opens the table, usually `/proc/self/mountinfo`; nothing is read yet.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, ReadTableError> {
        Ok(Self {
            file: TableFile::open(path)?,
            table: MountTable::default(),
        })
    }

    /// Reads the table and says which places changed since the last time; all of them the first time.
    ///
    /// # Errors
    /// It cannot be read; the next call gives the whole difference.
    pub fn refresh(&mut self) -> Result<Vec<MountChange>, ReadTableError> {
        // Not kept: after a storm, a megabyte would stay with a process that counts its kilobytes.
        let mut buffer = Vec::new();
        self.file.read(&mut buffer)?;
        Ok(self.table.update(&buffer))
    }

    /// The table as it was last read.
    #[must_use]
    pub fn table(&self) -> &MountTable {
        &self.table
    }
}

impl AsFd for MountWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }
}

/// The swaps of this machine.
#[derive(Debug)]
pub struct SwapWatch {
    file: TableFile,
    table: SwapTable,
}

impl SwapWatch {
    /// Opens the table, usually `/proc/swaps`; nothing is read yet.
    ///
    /// # Errors
    /// It cannot be opened, as on a kernel without swap.
    pub fn open(path: &Path) -> Result<Self, ReadTableError> {
        Ok(Self {
            file: TableFile::open(path)?,
            table: SwapTable::default(),
        })
    }

    /// Reads the table and says what changed since the last time; everything the first time.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn refresh(&mut self) -> Result<Vec<SwapChange>, ReadTableError> {
        let mut buffer = Vec::new();
        self.file.read(&mut buffer)?;
        Ok(self.table.update(&buffer))
    }

    /// The table as it was last read.
    #[must_use]
    pub fn table(&self) -> &SwapTable {
        &self.table
    }
}

impl AsFd for SwapWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }
}
