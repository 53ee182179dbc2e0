//! Mounts that only the calling thread and what it starts can see.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use super::disk::DiskError;
use super::log::Image;
use crate::command::run_tool;

/// Folders of every Linux system that are there to be mounted on.
const MOUNT_POINTS: [&str; 3] = ["/mnt", "/media", "/srv"];

/// Options that keep ext4 from making anything durable on its own: no allocation at rename, no
/// commit but those a program asks for.
const EXT4_OPTIONS: &str = "loop,noatime,noauto_da_alloc,commit=3600";

thread_local! {
    static PRIVATE: OnceCell<Private> = const { OnceCell::new() };
}

/// A thread's own mounts.
#[derive(Debug, Clone)]
struct Private {
    /// The memory file system.
    root: PathBuf,
    /// The mount namespace that the thread came from.
    home: Arc<File>,
}

/// Makes an empty folder in this thread's private memory file system.
pub(super) fn private_folder() -> Result<PathBuf, DiskError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);

    let root = private()?.root;
    let folder = root.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    fs::create_dir(&folder).map_err(|source| DiskError::Folder {
        path: folder.clone(),
        source,
    })?;
    Ok(folder)
}

/// The mount namespace that this thread was in before it got its own.
pub(super) fn home_namespace() -> Result<Arc<File>, DiskError> {
    Ok(private()?.home)
}

/// The first call moves the thread into a mount namespace of its own.
fn private() -> Result<Private, DiskError> {
    PRIVATE.with(|private| {
        if let Some(private) = private.get() {
            return Ok(private.clone());
        }
        let made = enter_private()?;
        Ok(private.get_or_init(|| made).clone())
    })
}

fn enter_private() -> Result<Private, DiskError> {
    let empty = |path: &&&str| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let root = MOUNT_POINTS
        .iter()
        .find(empty)
        .ok_or(DiskError::NoMountPoint(&MOUNT_POINTS))?;
    let enter = || {
        let home = File::open("/proc/thread-self/ns/mnt")?;
        #[expect(
            unsafe_code,
            reason = "a private mount namespace takes the raw system call"
        )]
        // SAFETY: only `UnshareFlags::FILES` is unsafe, since it leaves other threads with
        // descriptors that this one no longer shares; that table is not touched here.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", alone)?;
        rustix::mount::mount("powercut", *root, "tmpfs", MountFlags::empty(), c"mode=755")?;
        Ok(home)
    };
    let home = enter().map_err(|source| DiskError::Namespace { source })?;
    Ok(Private {
        root: PathBuf::from(root),
        home: Arc::new(home),
    })
}

/// A mounted file system; unmounted when dropped, before the disk that it lives on can go.
#[derive(Debug)]
pub struct Mounted<'disk> {
    point: PathBuf,
    disk: PhantomData<&'disk ()>,
}

impl Mounted<'_> {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Writes everything out and flushes, as `sync` does.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.point)?)?)
    }

    /// Mounts the ext4 file system in a file. The loop device lives as long as the mount.
    pub(super) fn ext4(file: &Path, point: &Path) -> Result<Self, DiskError> {
        let mut mount = Command::new("mount");
        mount
            .args(["-n", "-t", "ext4", "-o", EXT4_OPTIONS])
            .args([file, point]);
        run_tool(&mut mount, "").map_err(DiskError::Tool)?;
        Ok(Self {
            point: point.to_owned(),
            disk: PhantomData,
        })
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        unmount(&self.point);
    }
}

/// Takes a mount away. One still in use leaves the tree now and goes with its last user.
pub(super) fn unmount(point: &Path) {
    if rustix::mount::unmount(point, UnmountFlags::empty()).is_err() {
        let _ = rustix::mount::unmount(point, UnmountFlags::DETACH);
    }
}

/// An [`Image`] in use as a file system; file and mount go together.
#[derive(Debug)]
pub struct MountedImage {
    // Dropped, so unmounted, before the folder's content is removed.
    mounted: Option<Mounted<'static>>,
    folder: PathBuf,
}

impl MountedImage {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mounted
            .as_ref()
            .map_or(self.folder.as_path(), |mounted| mounted.path())
    }
}

impl Drop for MountedImage {
    fn drop(&mut self) {
        self.mounted = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Image {
    /// Mounts the image, as the machine does at its next start: the file system replays its journal.
    pub fn mount(&self) -> Result<MountedImage, DiskError> {
        let folder = private_folder()?;
        let mut image = MountedImage {
            mounted: None,
            folder: folder.clone(),
        };
        let file = folder.join("disk.img");
        let point = folder.join("mount");
        self.write_to(&file)
            .and_then(|()| fs::create_dir(&point))
            .map_err(|source| DiskError::Folder {
                path: folder,
                source,
            })?;
        image.mounted = Some(Mounted::ext4(&file, &point)?);
        Ok(image)
    }
}
