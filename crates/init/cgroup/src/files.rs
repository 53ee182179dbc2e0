//! The cgroup file system, relative to the root of a tree.

use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::{CgroupError, HierarchyError};
use crate::path::CgroupPath;
use crate::walk::names;

/// The largest file that is read: a list of about a million processes.
const MAX_FILE: usize = 8 << 20;
/// How many children of one cgroup are looked at.
const MAX_CHILDREN: usize = 1 << 16;

/// The root's folder. Every path is relative to it, so that a mount moved elsewhere does not matter.
#[derive(Debug)]
pub(crate) struct Files {
    root: OwnedFd,
    path: PathBuf,
}

impl Files {
    /// Opens the folder, making it (and what is above it) if it is missing.
    pub(crate) fn open(path: PathBuf) -> Result<Self, HierarchyError> {
        let failed = |source| HierarchyError::Open {
            path: path.clone(),
            source,
        };
        if let Err(error) = std::fs::create_dir_all(&path) {
            return Err(failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)));
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
        let root = rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { root, path })
    }

    pub(crate) fn full_path(&self, path: &CgroupPath) -> PathBuf {
        self.path.join(path.as_str())
    }

    /// Makes one folder; whether it is new.
    pub(crate) fn make(&self, relative: &str) -> Result<bool, Errno> {
        match rustix::fs::mkdirat(&self.root, relative, Mode::from_raw_mode(0o755)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn open_folder(&self, relative: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.root, relative, flags, Mode::empty())
    }

    pub(crate) fn open_file(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        rustix::fs::openat(&self.root, relative, flags, Mode::empty())
    }

    pub(crate) fn read(&self, relative: &str) -> Result<String, Errno> {
        read_all(&self.open_file(relative, OFlags::RDONLY)?)
    }

    pub(crate) fn write(&self, relative: &str, text: &str) -> Result<(), Errno> {
        let file = self.open_file(relative, OFlags::WRONLY)?;
        let written = rustix::io::write(&file, text.as_bytes())?;
        if written == text.len() {
            Ok(())
        } else {
            Err(Errno::IO)
        }
    }

    /// Changes whom a file or folder belongs to.
    pub(crate) fn give(&self, relative: &str, user: u32, group: u32) -> Result<(), Errno> {
        let user = Some(Uid::from_raw(user));
        let group = Some(Gid::from_raw(group));
        rustix::fs::chownat(&self.root, relative, user, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The groups right below that a path can name; others are nobody's but a delegate's.
    pub(crate) fn children(&self, path: &CgroupPath) -> Result<Vec<CgroupPath>, CgroupError> {
        let failed = |source| CgroupError::new("list", path, source);
        let folder = match self.open_folder(path.relative()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let names = names(&folder, MAX_CHILDREN).map_err(failed)?;
        if names.len() > MAX_CHILDREN {
            return Err(CgroupError::TooLarge { path: path.clone() });
        }
        let named = names.iter().filter_map(|name| {
            let name = name.to_str().ok()?;
            CgroupPath::parse(&format!("{}/{name}", path.as_str())).ok()
        });
        Ok(named.collect())
    }

    /// The processes of exactly this cgroup.
    pub(crate) fn members(&self, path: &CgroupPath) -> Result<Vec<Pid>, CgroupError> {
        match self.read(&path.file("cgroup.procs")) {
            Ok(text) => Ok(pids(&text)),
            // Gone, or a group of threads, whose processes are listed further up.
            Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(error) => Err(CgroupError::new("list the processes of", path, error)),
        }
    }

    pub(crate) fn remove_one(&self, path: &CgroupPath) -> Result<(), Errno> {
        self.remove_folder(path.relative())
    }

    /// Removes one folder, if it is there.
    pub(crate) fn remove_folder(&self, relative: &str) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.root, relative, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// All of a file of the kernel's, which say no size beforehand.
pub(crate) fn read_all(file: &OwnedFd) -> Result<String, Errno> {
    let mut bytes = vec![0; 4096];
    let mut filled = 0;
    loop {
        match rustix::io::read(file, &mut bytes[filled..])? {
            0 => break,
            count => filled += count,
        }
        if filled == bytes.len() {
            if filled >= MAX_FILE {
                return Err(Errno::FBIG);
            }
            bytes.resize(filled * 2, 0);
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).map_err(|_| Errno::ILSEQ)
}

pub(crate) fn pids(text: &str) -> Vec<Pid> {
    // A process of another pid namespace is listed as 0.
    text.lines()
        .filter_map(|line| line.parse().ok().and_then(Pid::from_raw))
        .collect()
}

/// The number after a key, from files of the form `key value` per line.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix(' ')?;
        value.trim().parse().ok()
    })
}
