//! A new owner for everything in a folder.

use std::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// How deep a tree is handed to a new owner.
const MAX_DEPTH: usize = 64;

/// Whether nothing is in a folder.
pub(super) fn is_empty(folder: BorrowedFd<'_>) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives a folder and everything in it to an owner, the folder itself last: whoever is interrupted begins again.
pub(super) fn hand_over(folder: BorrowedFd<'_>, owner: (Uid, Gid)) -> Result<(), Errno> {
    give(folder, owner, 0)
}

fn give(folder: BorrowedFd<'_>, owner: (Uid, Gid), depth: usize) -> Result<(), Errno> {
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Not every file system says what its entries are.
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match open(folder, name) {
                Ok(inner) => {
                    give(inner.as_fd(), owner, depth + 1)?;
                    continue;
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(folder, name, Some(owner.0), Some(owner.1), flags)?;
    }
    rustix::fs::fchown(folder, Some(owner.0), Some(owner.1))
}

fn open(folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}
