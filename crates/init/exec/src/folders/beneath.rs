//! Places below a folder of the machine's, found without following any link.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::PARENT_MODE;

/// What becomes of folders on the way that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// They are made, as the caller's.
    IsMade,
    /// They are an error.
    IsAnError,
}

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct Place<'n> {
    pub(super) around: OwnedFd,
    pub(super) name: &'n str,
}

/// The way to a place ends before it.
#[derive(Debug)]
pub(super) struct Lost {
    /// How far it goes, with what is in the way.
    pub(super) part: String,
    /// [`Errno::LOOP`] for a link.
    pub(super) errno: Errno,
}

/// The machine's folder itself, which is made if it is missing. The way to it is followed wherever it leads.
pub(super) fn open_root(path: &str) -> Result<OwnedFd, Errno> {
    match open_existing_root(path) {
        Err(Errno::NOENT) => {
            std::fs::create_dir_all(path)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            open_existing_root(path)
        }
        other => other,
    }
}

pub(super) fn open_existing_root(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// A folder with this name; a link to one is none.
pub(super) fn open_in(folder: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// A path as seen from a root, if it is below it and never leads up.
pub(super) fn name_in<'p>(root: &str, path: &'p str) -> Option<&'p str> {
    let name = path
        .strip_prefix(root.trim_end_matches('/'))?
        .strip_prefix('/')?;
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    name.split('/').all(is_plain).then_some(name)
}

/// The last name of a way below a folder, in the folder that it is in.
pub(super) fn place<'n>(
    root: BorrowedFd<'_>,
    name: &'n str,
    missing: Missing,
) -> Result<Place<'n>, Lost> {
    let (way, last) = match name.rsplit_once('/') {
        Some((way, last)) => (Some(way), last),
        None => (None, name),
    };
    let lost = |part: &str, errno| Lost {
        part: part.to_owned(),
        errno,
    };
    let mut around = rustix::io::fcntl_dupfd_cloexec(root, 0).map_err(|e| lost(name, e))?;
    let mut end = 0;
    for part in way.into_iter().flat_map(|way| way.split('/')) {
        end += part.len() + usize::from(end > 0);
        let so_far = name.get(..end).unwrap_or(name);
        if missing == Missing::IsMade {
            match rustix::fs::mkdirat(&around, part, PARENT_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(lost(so_far, errno)),
            }
        }
        let inner = open_in(rustix::fd::AsFd::as_fd(&around), part).map_err(|errno| {
            let is_link = rustix::fs::readlinkat(&around, part, Vec::new()).is_ok();
            lost(so_far, if is_link { Errno::LOOP } else { errno })
        })?;
        around = inner;
    }
    Ok(Place { around, name: last })
}
