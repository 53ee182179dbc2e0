//! The file system as the loader and the installer see it.
//!
//! Both only read, through [`UnitFs`]: [`MemoryFs`] for tests and for files that exist nowhere,
//! [`RealFs`] for a machine or for the root file system of another one.

mod memory;
mod real;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

pub use memory::MemoryFs;
pub use real::RealFs;
use thiserror::Error;

/// The largest file that is read.
pub const MAX_FILE: u64 = 4 << 20;

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// The null device, which masks units.
    Null,
    /// Something else.
    Other,
}

/// What is known about a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub size: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified: i128,
    /// Its inode.
    pub inode: u64,
}

impl FileStat {
    /// Whether it masks what it stands for: the null device, or an empty file.
    #[must_use]
    pub fn is_mask(&self) -> bool {
        self.kind == FileKind::Null || (self.kind == FileKind::File && self.size == 0)
    }
}

/// A value that differs when files do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of anything that can be hashed.
    #[must_use]
    pub fn of(value: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Why a file or folder cannot be read.
#[derive(Debug, Error)]
pub enum FsError {
    /// There is none.
    #[error("{path} does not exist")]
    NotFound {
        /// Which.
        path: Box<str>,
    },
    /// It is longer than [`MAX_FILE`].
    #[error("{path} is longer than 4 MiB")]
    TooLarge {
        /// Which.
        path: Box<str>,
    },
    /// Links lead in a circle, or too far.
    #[error("too many symbolic links at {path}")]
    LinkLoop {
        /// Where.
        path: Box<str>,
    },
    /// The system refuses.
    #[error("cannot {operation} {path}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: Box<str>,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl FsError {
    /// Whether there simply is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Reading files. Paths are absolute, as the units see them.
pub trait UnitFs {
    /// The names in a folder and what they are, in any order.
    ///
    /// # Errors
    /// There is no such folder, or it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<(String, FileKind)>, FsError>;

    /// The content of a file, through links.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, FsError>;

    /// Where a symbolic link points to, as written.
    ///
    /// # Errors
    /// There is no such link.
    fn read_link(&self, path: &str) -> Result<String, FsError>;

    /// What is known about a file, through links.
    ///
    /// # Errors
    /// There is no such file, or a link leads nowhere.
    fn stat(&self, path: &str) -> Result<FileStat, FsError>;
}

/// An absolute path without `.`, `..` and doubled slashes; `..` at the top stays at the top.
#[must_use]
pub fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Where a link at `link` that says `target` leads to.
#[must_use]
pub fn link_destination(link: &str, target: &str) -> String {
    if target.starts_with('/') {
        return normalize(target);
    }
    let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
    normalize(&format!("{folder}/{target}"))
}

/// The part of a path after its last slash.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
