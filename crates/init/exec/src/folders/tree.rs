//! A new owner for everything in a folder.
//!
//! However deep it is, one folder is open at a time. Whoever may write in the tree may move a folder out of it while it is gone
//! through, so the way up is only taken if it leads to where the way down came from.

use std::ffi::{CStr, CString};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

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
    let mut walk = Walk::begin(folder, owner)?;
    loop {
        while walk.down()? {}
        if !walk.up()? {
            return Ok(());
        }
    }
}

/// A folder in the tree, from where one goes on.
struct Walk {
    owner: (Uid, Gid),
    folder: OwnedFd,
    /// This folder, behind those that it is in.
    levels: Vec<Level>,
}

/// A folder on the way. What is in it and is no folder has its owner already.
struct Level {
    /// Device and number.
    identity: (u64, u64),
    /// Folders in it that were not gone through yet.
    left: Vec<CString>,
}

impl Walk {
    fn begin(folder: BorrowedFd<'_>, owner: (Uid, Gid)) -> Result<Self, Errno> {
        let folder = open(folder, c".")?;
        let levels = vec![Level::enter(folder.as_fd(), owner)?];
        Ok(Self {
            owner,
            folder,
            levels,
        })
    }

    /// Goes to a folder in this one; `false` if none is left.
    fn down(&mut self) -> Result<bool, Errno> {
        while let Some(name) = self.levels.last_mut().and_then(|level| level.left.pop()) {
            match open(self.folder.as_fd(), &name) {
                Ok(inner) => {
                    self.levels.push(Level::enter(inner.as_fd(), self.owner)?);
                    self.folder = inner;
                    return Ok(true);
                }
                // Something else has taken its place.
                Err(Errno::NOTDIR | Errno::LOOP) => give(self.folder.as_fd(), &name, self.owner)?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }

    /// Gives this folder to its owner and goes to the one that it is in; `false` if it is the first.
    fn up(&mut self) -> Result<bool, Errno> {
        rustix::fs::fchown(&self.folder, Some(self.owner.0), Some(self.owner.1))?;
        self.levels.pop();
        let Some(level) = self.levels.last() else {
            return Ok(false);
        };
        let above = open(self.folder.as_fd(), c"..")?;
        if identity(above.as_fd())? != level.identity {
            // It was moved away.
            return Err(Errno::BUSY);
        }
        self.folder = above;
        Ok(true)
    }
}

impl Level {
    /// Gives everything in a folder to its owner but for other folders.
    fn enter(folder: BorrowedFd<'_>, owner: (Uid, Gid)) -> Result<Self, Errno> {
        let mut left = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Not every file system says what its entries are.
            match entry.file_type() {
                FileType::Directory | FileType::Unknown => left.push(name.to_owned()),
                _ => give(folder, name, owner)?,
            }
        }
        Ok(Self {
            identity: identity(folder)?,
            left,
        })
    }
}

fn identity(folder: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Gives what is no folder to an owner, unless it is gone.
fn give(folder: BorrowedFd<'_>, name: &CStr, owner: (Uid, Gid)) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::chownat(folder, name, Some(owner.0), Some(owner.1), flags) {
        Err(Errno::NOENT) => Ok(()),
        given => given,
    }
}

fn open(folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// A user that only root can give anything to; whoever else runs the test keeps it.
    fn another() -> (Uid, Gid) {
        if rustix::process::geteuid().is_root() {
            (Uid::from_raw(4711), Gid::from_raw(4712))
        } else {
            (rustix::process::geteuid(), rustix::process::getegid())
        }
    }

    /// Deeper than a process may have files, in the end, and with a path that is longer than any that the kernel takes.
    #[test]
    fn a_tree_of_any_depth_gets_its_owner() {
        const DEPTH: usize = 300;
        let top = tempfile::tempdir().unwrap();
        let name = CString::new("a name that makes paths long").unwrap();
        let mut folders = vec![OwnedFd::from(File::open(top.path()).unwrap())];
        for _ in 0..DEPTH {
            let last = folders.last().unwrap();
            rustix::fs::mkdirat(last, &name, Mode::RWXU).unwrap();
            for file in [c"file", c"other"] {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(last, file, flags, Mode::RUSR).unwrap();
            }
            let inner = open(last.as_fd(), &name).unwrap();
            folders.push(inner);
        }
        let owner = another();
        hand_over(folders[0].as_fd(), owner).unwrap();
        for folder in &folders {
            let stat = rustix::fs::fstat(folder).unwrap();
            assert_eq!(stat.st_uid, owner.0.as_raw());
        }
        for folder in folders.iter().take(DEPTH) {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(folder, c"other", flags).unwrap();
            assert_eq!(
                (stat.st_uid, stat.st_gid),
                (owner.0.as_raw(), owner.1.as_raw())
            );
        }
    }

    #[test]
    fn a_folder_that_is_moved_out_of_the_tree_leads_nobody_out_of_it() {
        let around = tempfile::tempdir().unwrap();
        let at = |path: &str| around.path().join(path);
        std::fs::create_dir_all(at("tree/a/b")).unwrap();
        std::fs::create_dir_all(at("outside/of-others")).unwrap();
        let before = std::fs::metadata(at("outside/of-others")).unwrap().uid();
        let top = File::open(at("tree")).unwrap();
        let mut walk = Walk::begin(top.as_fd(), another()).unwrap();
        assert!(walk.down().unwrap() && walk.down().unwrap());
        std::fs::rename(at("tree/a/b"), at("outside/b")).unwrap();
        assert_eq!(walk.up(), Err(Errno::BUSY));
        let after = std::fs::metadata(at("outside/of-others")).unwrap().uid();
        assert_eq!(after, before);
    }
}
