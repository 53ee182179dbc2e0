//! Where a new process can be put: a group that runs, and that takes processes itself.

use std::ffi::CString;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{Backing, Tree};
use crate::error::CgroupError;
use crate::files::{Files, read_all};
use crate::path::CgroupPath;

/// The group for commands of a unit whose group has been handed on, as systemd names it.
const CONTROL_LEAF: &str = ".control";
/// The file that says whether a group is to stand still; whether it does yet is another matter.
const FREEZE: &str = "cgroup.freeze";
/// More files than the kernel gives any group.
const MAX_FILES: usize = 1 << 10;

impl Tree {
    /// The nearest group that is frozen or about to be, from this one to the last below the root of the tree. While there is one,
    /// nothing in the group runs.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn frozen_at(&self, path: &CgroupPath) -> Result<Option<CgroupPath>, CgroupError> {
        match &self.backing {
            Backing::V2(files) => frozen_at(files, path),
            _ => Ok(None),
        }
    }

    /// Thaws a group, if it is frozen or about to be by its own setting; gives the nearest above it that keeps it from running
    /// nevertheless.
    ///
    /// # Errors
    /// The kernel refuses, or does not say.
    pub fn thaw(&self, path: &CgroupPath) -> Result<Option<CgroupPath>, CgroupError> {
        match self.frozen_at(path)? {
            Some(at) if at == *path => {
                self.set_frozen(path, false)?;
                self.frozen_at(&path.parent())
            }
            above => Ok(above),
        }
    }

    /// Freezes or thaws a group and all below it, and waits until that is so; whether it came in time. One that did not freeze in
    /// time runs on.
    ///
    /// # Errors
    /// The hierarchy cannot, or the kernel refuses.
    pub fn change_frozen(
        &self,
        path: &CgroupPath,
        frozen: bool,
        limit: Duration,
    ) -> Result<bool, CgroupError> {
        self.set_frozen(path, frozen)?;
        let changed = self.wait_frozen(path, frozen, limit);
        if frozen && !matches!(changed, Ok(true)) {
            // Whoever is told that it is not frozen would find it half frozen, or frozen later.
            self.set_frozen(path, false)?;
        }
        changed
    }
}

pub(super) fn frozen_at(
    files: &Files,
    path: &CgroupPath,
) -> Result<Option<CgroupPath>, CgroupError> {
    let mut at = path.clone();
    while !at.is_root() {
        match files.read(&at.file(FREEZE)) {
            Ok(text) if text.trim() == "1" => return Ok(Some(at)),
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => at = at.parent(),
            Err(error) => return Err(CgroupError::new("read whether to freeze", &at, error)),
        }
    }
    Ok(None)
}

/// The folder where a process can be put: a group whose owner has handed controllers on to groups below it takes none itself, so
/// commands that are run beside what the owner put there get a group of their own.
pub(super) fn with_room(files: &Files, path: &CgroupPath) -> Result<OwnedFd, Errno> {
    let handed_on = files
        .read(&path.file("cgroup.subtree_control"))
        .unwrap_or_default();
    if handed_on.trim().is_empty() {
        return files.open_folder(path.relative());
    }
    beside(files, &format!("{}/{CONTROL_LEAF}", path.relative()))
}

/// The group for commands, which is ours and runs. Whoever the unit's group was handed to may have made it before, and may have
/// frozen it: one that is empty is made anew, which also ends what he holds open of it, and another is taken from him.
fn beside(files: &Files, place: &str) -> Result<OwnedFd, Errno> {
    files.make(place)?;
    let folder = files.open_folder(place)?;
    if is_ours(&folder)? {
        return thawed(folder);
    }
    match files.remove_folder(place) {
        Ok(()) => {
            files.make(place)?;
            let folder = files.open_folder(place)?;
            take(&folder)?;
            thawed(folder)
        }
        Err(Errno::BUSY | Errno::NOTEMPTY) => {
            take(&folder)?;
            thawed(folder)
        }
        Err(error) => Err(error),
    }
}

fn is_ours(folder: &OwnedFd) -> Result<bool, Errno> {
    let owner = rustix::fs::fstat(folder)?.st_uid;
    Ok(owner == rustix::process::geteuid().as_raw())
}

/// Makes a group and all of its files ours.
fn take(folder: &OwnedFd) -> Result<(), Errno> {
    if is_ours(folder)? {
        return Ok(());
    }
    let user = Some(Uid::from_raw(rustix::process::geteuid().as_raw()));
    let group = Some(Gid::from_raw(rustix::process::getegid().as_raw()));
    // The folder first: from then on nobody else puts anything into it.
    rustix::fs::fchown(folder, user, group)?;
    let mut names: Vec<CString> = Vec::new();
    for entry in Dir::read_from(folder)?.take(MAX_FILES) {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    names.iter().try_for_each(|name| {
        match rustix::fs::chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW) {
            // A group below it that has gone.
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    })
}

fn thawed(folder: OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&folder, FREEZE, flags, Mode::empty()) {
        Ok(file) => file,
        // A kernel that freezes nothing.
        Err(Errno::NOENT) => return Ok(folder),
        Err(error) => return Err(error),
    };
    if read_all(&file)?.trim() == "1" {
        rustix::io::write(&file, b"0")?;
    }
    Ok(folder)
}
