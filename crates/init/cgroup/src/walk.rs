//! Going through a cgroup and all below it, whatever their names are and however deep they lie: whoever may make groups
//! must not be able to hide processes in them.

use std::ffi::{CStr, CString};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::CgroupError;
use crate::files::{Files, pids, read_all};
use crate::path::CgroupPath;

/// How many groups are looked at in one go.
const MAX_GROUPS: usize = 1 << 16;

/// What is done to a group once all below it were looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Keep,
    Remove,
}

/// A place in the tree, from where one goes on. One descriptor is open at a time: there may be more levels than a process may
/// have files, and names may be too long together for a path.
struct Walk<'t> {
    top: &'t CgroupPath,
    behind: Behind,
    folder: OwnedFd,
    /// From the top to here.
    names: Vec<CString>,
    /// Groups beside these, and below this one, that were not looked at yet.
    left: Vec<Vec<CString>>,
    seen: usize,
}

impl Files {
    /// The processes of this cgroup and of all below it.
    pub(crate) fn all_members(&self, top: &CgroupPath) -> Result<Vec<Pid>, CgroupError> {
        let mut members = Vec::new();
        self.each(top, |_, some| {
            members.extend(some);
            Ok(())
        })?;
        Ok(members)
    }

    /// This cgroup and all below it with their processes, parents before children. One that no path names goes by the nearest above
    /// it that has one.
    pub(crate) fn each(
        &self,
        top: &CgroupPath,
        mut visit: impl FnMut(&dyn Fn() -> CgroupPath, Vec<Pid>) -> Result<(), CgroupError>,
    ) -> Result<(), CgroupError> {
        let Some(mut walk) = Walk::begin(self, top, Behind::Keep)? else {
            return Ok(());
        };
        loop {
            let members = walk.members()?;
            visit(&|| walk.path(), members)?;
            if !walk.next()? {
                return Ok(());
            }
        }
    }

    /// Removes a cgroup and what is below it, children first.
    pub(crate) fn remove(&self, top: &CgroupPath) -> Result<(), CgroupError> {
        if self.remove_one(top) == Ok(()) {
            return Ok(());
        }
        if let Some(mut walk) = Walk::begin(self, top, Behind::Remove)? {
            while walk.next()? {}
        }
        self.remove_one(top)
            .map_err(|error| not_removed(error, top.clone()))
    }
}

impl<'t> Walk<'t> {
    /// `None` where there is no such group.
    fn begin(
        files: &Files,
        top: &'t CgroupPath,
        behind: Behind,
    ) -> Result<Option<Self>, CgroupError> {
        let folder = match files.open_folder(top.relative()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(CgroupError::new("list", top, error)),
        };
        Ok(Some(Self {
            top,
            behind,
            folder,
            names: Vec::new(),
            left: Vec::new(),
            seen: 0,
        }))
    }

    /// Goes to the first group below this one, or to one beside it, or beside those above; `false` once all were seen.
    fn next(&mut self) -> Result<bool, CgroupError> {
        let below = names(&self.folder, MAX_GROUPS).map_err(|error| self.failed(error))?;
        self.seen += below.len();
        if self.seen > MAX_GROUPS {
            return Err(CgroupError::TooLarge { path: self.path() });
        }
        self.left.push(below);
        loop {
            while let Some(name) = self.left.last_mut().and_then(Vec::pop) {
                match open(&self.folder, &name) {
                    Ok(folder) => {
                        self.folder = folder;
                        self.names.push(name);
                        return Ok(true);
                    }
                    // Removed meanwhile.
                    Err(Errno::NOENT | Errno::NODEV) => {}
                    Err(error) => return Err(self.failed(error)),
                }
            }
            self.left.pop();
            if self.names.is_empty() {
                return Ok(false);
            }
            // Groups do not move, and one that was removed still knows where it was.
            self.folder = open(&self.folder, c"..").map_err(|error| self.failed(error))?;
            self.leave()?;
        }
    }

    /// From the folder above.
    fn leave(&mut self) -> Result<(), CgroupError> {
        if let (Behind::Remove, Some(name)) = (self.behind, self.names.last()) {
            match rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(not_removed(error, self.path())),
            }
        }
        self.names.pop();
        Ok(())
    }

    /// The processes of exactly this group.
    fn members(&self) -> Result<Vec<Pid>, CgroupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, "cgroup.procs", flags, Mode::empty());
        match file.and_then(|file| read_all(&file)) {
            Ok(text) => Ok(pids(&text)),
            // Gone, or a group of threads, whose processes are listed further up.
            Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(error) => Err(CgroupError::new(
                "list the processes of",
                &self.path(),
                error,
            )),
        }
    }

    /// This group, or the nearest above it that a path can name.
    fn path(&self) -> CgroupPath {
        let mut path = self.top.clone();
        for name in &self.names {
            let next = name
                .to_str()
                .ok()
                .and_then(|name| CgroupPath::parse(&format!("{}/{name}", path.as_str())).ok());
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }

    fn failed(&self, error: Errno) -> CgroupError {
        CgroupError::new("list", &self.path(), error)
    }
}

fn not_removed(error: Errno, path: CgroupPath) -> CgroupError {
    match error {
        Errno::BUSY | Errno::NOTEMPTY => CgroupError::Busy { path },
        error => CgroupError::new("remove", &path, error),
    }
}

fn open(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
}

/// The names of groups below a folder, one more than `most` at the most.
pub(crate) fn names(folder: &OwnedFd, most: usize) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = match entry {
            Ok(entry) => entry,
            // Removed while it was listed.
            Err(Errno::NOENT | Errno::NODEV) => break,
            Err(error) => return Err(error),
        };
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names.push(name.to_owned());
        if names.len() > most {
            break;
        }
    }
    Ok(names)
}
