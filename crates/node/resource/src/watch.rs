//! Notices when names come and go in the folders of devices, and when a file changes.
//!
//! `muster-tls` has a watch for certificates that also tells of every write to any file beside them. In `/dev` that would be
//! each write to `/dev/null` by anybody on the node, so this one asks the kernel for less.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Links that are followed from a name to its device.
const MAX_LINKS: usize = 8;

/// A name has come or gone.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Folders to watch, and for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Folders(BTreeMap<PathBuf, WatchFlags>);

impl Folders {
    /// Where it shows that a device comes or goes, or that the content of `file` changes. Looks at the disk.
    pub(crate) fn around<'a>(file: &Path, devices: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut folders = Self::default();
        folders.add(file, NAMES | WatchFlags::CLOSE_WRITE);
        for device in devices {
            folders.add(device, NAMES);
        }
        folders
    }

    /// The folder of a name and, behind a link, of every name on the way to what it stands for.
    fn add(&mut self, name: &Path, flags: WatchFlags) {
        let mut name = name.to_owned();
        for _ in 0..=MAX_LINKS {
            let Some(folder) = nearest_folder(&name) else {
                return;
            };
            *self.0.entry(folder).or_insert(flags) |= flags;
            let Ok(target) = fs::read_link(&name) else {
                return;
            };
            name = name.parent().unwrap_or(Path::new("/")).join(target);
        }
    }
}

/// The folder of a name, or the nearest one above that exists: it tells when the next one appears.
fn nearest_folder(name: &Path) -> Option<PathBuf> {
    // Resolved, since one folder under two names would be one watch with the flags of the last.
    let above = name.ancestors().skip(1);
    above
        .map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        })
        .find_map(|folder| folder.canonicalize().ok().filter(|it| it.is_dir()))
}

/// A watch over folders.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    inotify: AsyncFd<OwnedFd>,
    watched: BTreeSet<i32>,
}

impl FolderWatch {
    /// Watches nothing yet.
    #[expect(
        unsafe_code,
        reason = "tokio takes descriptors of other kinds than its own only so"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: the descriptor is open and owned; the `AsyncFd` takes the `OwnedFd` over, which always gives the same
        // number, and only shared references to it are ever handed out.
        let inotify = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self {
            inotify,
            watched: BTreeSet::new(),
        })
    }

    /// Watches these folders and no others.
    ///
    /// # Errors
    /// The first folder that cannot be watched; the others are.
    pub(crate) fn arm(&mut self, folders: &Folders) -> Result<(), (PathBuf, io::Error)> {
        let mut armed = BTreeSet::new();
        let mut failed = Ok(());
        for (folder, flags) in &folders.0 {
            match inotify::add_watch(self.inotify.get_ref(), folder, *flags) {
                Ok(descriptor) => drop(armed.insert(descriptor)),
                Err(errno) => failed = failed.and(Err((folder.clone(), errno.into()))),
            }
        }
        for descriptor in self.watched.difference(&armed) {
            // The kernel has already forgotten the watch of a folder that was deleted.
            let _ = inotify::remove_watch(self.inotify.get_ref(), *descriptor);
        }
        self.watched = armed;
        failed
    }

    /// Waits until something has happened.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            // Would have blocked: nothing has happened after all.
            if let Ok(drained) = ready.try_io(|fd| drain(fd.get_ref())) {
                return drained;
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

#[cfg(test)]
mod tests;
