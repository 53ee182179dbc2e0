//! Notices when something happens in the folders that hold given files.
//!
//! Folders are watched, not files: a file replaced by a rename is another file, and a file that does
//! not exist yet cannot be watched. What happened is of no interest, since the reader looks at
//! everything again anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Tells that something has happened in the folders of given files; see [`arm`](Self::arm).
///
/// Folders are watched, not files: a file replaced by a rename is another file, and one that does not
/// exist yet cannot be watched. The certificate watcher uses it, and so can whoever reads other files
/// that are replaced while a daemon runs.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: AsyncFd<OwnedFd>,
    watched: BTreeSet<i32>,
}

impl FolderWatch {
    /// Watches nothing yet. Needs a tokio runtime with I/O around it.
    #[expect(
        unsafe_code,
        reason = "tokio takes descriptors of other kinds than its own only so"
    )]
    pub fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: the descriptor is open and owned; the `AsyncFd` takes the `OwnedFd` over, which
        // always gives the same number, and only shared references to it are ever handed out.
        let inotify = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self {
            inotify,
            watched: BTreeSet::new(),
        })
    }

    /// Watches the folders of `files` as they are now, and no others. Gives the folders that cannot be
    /// watched, with the reason.
    pub fn arm(&mut self, files: &[PathBuf]) -> BTreeMap<PathBuf, io::Error> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut armed = BTreeSet::new();
        let mut failed = BTreeMap::new();
        for folder in folders_of(files) {
            match inotify::add_watch(self.inotify.get_ref(), &folder, flags) {
                Ok(descriptor) => {
                    armed.insert(descriptor);
                }
                Err(errno) => {
                    failed.insert(folder, errno.into());
                }
            }
        }
        for descriptor in self.watched.difference(&armed) {
            // The kernel has already forgotten the watch of a folder that was deleted.
            let _ = inotify::remove_watch(self.inotify.get_ref(), *descriptor);
        }
        self.watched = armed;
        failed
    }

    /// Waits until something has happened in a watched folder.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let drained = ready.try_io(|fd| drain(fd.get_ref()));
            match drained {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }
}

/// Reads events until there are none. `WouldBlock` only when there was not a single one.
fn drain(fd: &OwnedFd) -> io::Result<()> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut any = false;
    loop {
        match reader.next() {
            Ok(_) => any = true,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if any => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The folder of each file as it is named, and the one it is really in: behind a symbolic link both
/// can change.
fn folders_of(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for file in files {
        folders.insert(folder_of(file));
        if let Ok(real) = file.canonicalize() {
            folders.insert(folder_of(&real));
        }
    }
    folders
}

/// The folder of a file, or the nearest one above that exists: it tells when the folder appears.
fn folder_of(file: &Path) -> PathBuf {
    let above = file.ancestors().skip(1);
    match above
        .filter(|folder| !folder.as_os_str().is_empty())
        .find(|folder| folder.exists())
    {
        Some(folder) => folder.to_owned(),
        None => PathBuf::from("."),
    }
}
