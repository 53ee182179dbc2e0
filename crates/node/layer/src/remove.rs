//! Takes trees away, whatever shape they have.
//!
//! Instead of going down, which needs a descriptor or a stack frame per level, whatever folder is found inside a
//! folder is moved up to the top. No folder is ever more than one level away, each is moved at most once, and a tree
//! of any depth needs three descriptors.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    self, AtFlags, FileType, IFlags, Mode, OFlags, RawDir, ResolveFlags, fchmod, openat2, unlinkat,
};
use rustix::io::Errno;

/// Why a tree is still there, at least in part.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} \"{name}\"")]
pub struct RemoveError {
    /// What was tried.
    pub operation: &'static str,
    /// On which name, escaped.
    pub name: String,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl RemoveError {
    fn new(operation: &'static str, name: &[u8], errno: Errno) -> Self {
        Self {
            operation,
            name: name.escape_ascii().to_string(),
            source: errno.into(),
        }
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes `name`, a single step, in the folder `parent`, with everything in it. A name that does not exist is no error.
///
/// Symbolic links are removed, not followed. Folders that forbid it to their owner and files with the immutable or append-only
/// flag are changed so that they can be removed. Another file system mounted in the tree is an error, and stays.
///
/// # Errors
/// The tree is still there, at least in part. Calling again goes on where it stopped.
pub fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), RemoveError> {
    let invalid = || RemoveError::new("remove", name, Errno::INVAL);
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(invalid());
    }
    let text = CString::new(name).map_err(|_| invalid())?;
    match remove_plain(parent, &text) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(RemoveError::new("remove", name, errno)),
    }
    match open_folder(parent, &text) {
        Ok(folder) => remove_contents(folder.as_fd())?,
        Err(errno) => return Err(RemoveError::new("open", name, errno)),
    }
    unlinkat(parent, &text, AtFlags::REMOVEDIR)
        .map_err(|errno| RemoveError::new("remove", name, errno))
}

/// Removes everything in a folder, which itself stays.
///
/// # Errors
/// As [`remove_tree`].
pub fn remove_contents(folder: BorrowedFd<'_>) -> Result<(), RemoveError> {
    let top = fs::openat(folder, c".", FOLDER, Mode::empty())
        .map_err(|errno| RemoveError::new("open", b".", errno))?;
    unlock(top.as_fd());
    let mut moved = 0_u64;
    // Every round takes away all folders there are and finds those that it has moved up in the next.
    loop {
        let folders = clear(top.as_fd(), |name| Ok(Some(name.to_owned())))?;
        if folders.is_empty() {
            return Ok(());
        }
        for name in folders {
            let inner = open_folder(top.as_fd(), &name)
                .map_err(|errno| RemoveError::new("open", name.to_bytes(), errno))?;
            clear(inner.as_fd(), |child| {
                move_up(inner.as_fd(), child, top.as_fd(), &mut moved)
                    .map_err(|errno| RemoveError::new("move", child.to_bytes(), errno))?;
                Ok(None)
            })?;
            unlinkat(top.as_fd(), &name, AtFlags::REMOVEDIR)
                .map_err(|errno| RemoveError::new("remove", name.to_bytes(), errno))?;
        }
    }
}

/// How many folders one round remembers, so that a folder of many does not take memory for all of their names.
const ROUND: usize = 1024;

/// Unlinks all that is not a folder, and asks `for_folder` what to do with each that is and not empty. Gives the names
/// that it returned, at most [`ROUND`].
fn clear(
    folder: BorrowedFd<'_>,
    mut for_folder: impl FnMut(&CStr) -> Result<Option<CString>, RemoveError>,
) -> Result<BTreeSet<CString>, RemoveError> {
    let failed =
        |operation, name: &CStr, errno| RemoveError::new(operation, name.to_bytes(), errno);
    let mut kept = BTreeSet::new();
    // Removing while reading may make the reading skip, so read again until nothing is found.
    loop {
        let mut found = false;
        fs::seek(folder, fs::SeekFrom::Start(0)).map_err(|errno| failed("read", c".", errno))?;
        let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| failed("read", c".", errno))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || kept.contains(name) {
                continue;
            }
            let plain = match entry.file_type() {
                FileType::Directory => Err(Errno::ISDIR),
                _ => remove_plain(folder, name),
            };
            match plain {
                Ok(()) | Err(Errno::NOENT) => found = true,
                Err(Errno::ISDIR) => match unlinkat(folder, name, AtFlags::REMOVEDIR) {
                    Ok(()) => found = true,
                    Err(_) => match for_folder(name)? {
                        None => found = true,
                        Some(name) if kept.len() < ROUND => {
                            kept.insert(name);
                        }
                        Some(_) => return Ok(kept),
                    },
                },
                Err(errno) => return Err(failed("remove", name, errno)),
            }
        }
        if !found {
            return Ok(kept);
        }
    }
}

/// Unlinks something that is not a folder; `ISDIR` if it is one.
fn remove_plain(folder: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::PERM) => {
            // Only files and folders have flags, and opening anything else could have effects.
            let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => return Err(Errno::ISDIR),
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    clear_flags(openat2(folder, name, flags, Mode::empty(), RESOLVE)?.as_fd());
                }
                _ => {}
            }
            unlinkat(folder, name, AtFlags::empty())
        }
        result => result,
    }
}

/// Opens a folder and lets its owner change it. Where the latter fails, the operation that needs it says why.
fn open_folder(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let folder = match openat2(parent, name, FOLDER, Mode::empty(), RESOLVE) {
        Err(Errno::ACCESS) => {
            // Its owner may not read it. A folder that was just seen, in a tree that is nobody else's, is no symbolic link.
            fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            openat2(parent, name, FOLDER, Mode::empty(), RESOLVE)?
        }
        result => result?,
    };
    unlock(folder.as_fd());
    Ok(folder)
}

fn unlock(folder: BorrowedFd<'_>) {
    clear_flags(folder);
    if let Ok(stat) = fs::fstat(folder)
        && !Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU)
    {
        let _ = fchmod(folder, Mode::RWXU);
    }
}

/// Takes the immutable and append-only flags off, where the file system has them.
fn clear_flags(file: BorrowedFd<'_>) {
    let locked = IFlags::IMMUTABLE | IFlags::APPEND;
    if let Ok(flags) = fs::ioctl_getflags(file)
        && flags.intersects(locked)
    {
        // The operation that needs it says why it fails.
        let _ = fs::ioctl_setflags(file, flags.difference(locked));
    }
}

fn move_up(
    from: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    moved: &mut u64,
) -> Result<(), Errno> {
    let mut unlocked = false;
    loop {
        let new = format!(".removing-{moved}");
        match fs::renameat_with(from, name, top, new, fs::RenameFlags::NOREPLACE) {
            // Taken, perhaps by a call that did not finish.
            Err(Errno::EXIST) => *moved += 1,
            // A folder's link to its parent changes, so it must be writable itself.
            Err(Errno::PERM | Errno::ACCESS) if !unlocked => {
                unlocked = true;
                open_folder(from, name)?;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
