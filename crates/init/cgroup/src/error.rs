//! What can go wrong.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::path::CgroupPath;

/// Finding the machine's hierarchy, or opening the own part of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum HierarchyError {
    /// One of the kernel's tables could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The table.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder that was named is not a cgroup.
    #[error("{} is not a folder of a cgroup file system", path.display())]
    NotCgroup {
        /// The folder.
        path: PathBuf,
    },
    /// The root of the tree could not be made or opened.
    #[error("cannot open the root of the tree of cgroups at {}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// An operation on one cgroup failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The kernel refused.
    #[error("cannot {operation} cgroup {path}")]
    Operation {
        /// What was to be done, as a verb: `make`, `remove`, `write memory.max of` ...
        operation: Box<str>,
        /// To which cgroup.
        path: CgroupPath,
        /// Why.
        #[source]
        source: Errno,
    },
    /// Processes are in it, so it stays.
    #[error("cgroup {path} has processes in it and cannot be removed")]
    Busy {
        /// The cgroup.
        path: CgroupPath,
    },
    /// It is frozen or about to be: a process that is put in it, or below it, does not get to run its program.
    #[error("cgroup {path} is frozen and takes no new process; thaw it first")]
    Frozen {
        /// The cgroup.
        path: CgroupPath,
    },
    /// The machine's hierarchy cannot do this.
    #[error("cannot {operation} cgroup {path}: this machine's hierarchy has no such thing")]
    Unsupported {
        /// What was to be done.
        operation: Box<str>,
        /// To which cgroup.
        path: CgroupPath,
    },
    /// It has more groups below it than can be real.
    #[error("cgroup {path} is larger than can be handled")]
    TooLarge {
        /// The cgroup.
        path: CgroupPath,
    },
}

impl CgroupError {
    pub(crate) fn new(operation: &str, path: &CgroupPath, source: Errno) -> Self {
        Self::Operation {
            operation: operation.into(),
            path: path.clone(),
            source,
        }
    }

    /// The system's error number, where the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Operation { source, .. } => Some(source.raw_os_error()),
            _ => None,
        }
    }
}
