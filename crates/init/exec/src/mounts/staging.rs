//! Where images and folders with extensions wait until they are seen: in memory that is mounted for that and gone when the
//! view is complete.
//!
//! The kernel copies only what is mounted somewhere, and extensions are laid over each other by their paths. Here these are
//! numbers, whatever the images and folders are called, and lead through no symlink.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use muster_mounts::{AccessTime, Attributes};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, mkdirat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::fchdir;

use super::calls::{attach_mount, make_mount, open_folder, open_place};
use super::inaccessible::make_folder;

/// Every process has its own there, in its own namespace.
const PLACE: &str = "/run/muster/unit-images";
/// What the kernel takes as the options of a mount, the zero behind them included.
const MAX_OPTIONS: usize = 4096;

pub(super) struct Staging {
    folder: OwnedFd,
    /// The folder that the process is in.
    current: OwnedFd,
    count: u32,
}

impl Staging {
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let current = open(".", flags, Mode::empty())?;
        make_folder("/run/muster")?;
        make_folder(PLACE)?;
        attach_mount(memory("0700")?.as_fd(), open_folder(PLACE)?.as_fd())?;
        // A copy of a folder above it, with all that is mounted there, has nothing of this.
        mount_change(PLACE, MountPropagationFlags::UNBINDABLE)?;
        Ok(Self {
            folder: open_folder(PLACE)?,
            current,
            count: 0,
        })
    }

    fn make_place(&mut self) -> Result<String, Errno> {
        let name = self.count.to_string();
        self.count = self.count.checked_add(1).ok_or(Errno::OVERFLOW)?;
        mkdirat(&self.folder, &name, Mode::from_raw_mode(0o755))?;
        Ok(name)
    }

    pub(super) fn open_place(&self, name: &str) -> Result<OwnedFd, Errno> {
        open_place(self.folder.as_fd(), name)
    }

    /// Attaches a mount and gives the name of its place.
    pub(super) fn attach(&mut self, mount: BorrowedFd<'_>) -> Result<String, Errno> {
        let name = self.make_place()?;
        attach_mount(mount, self.open_place(&name)?.as_fd())?;
        Ok(name)
    }

    /// Attaches an empty file system and gives the name of its place.
    pub(super) fn attach_nothing(&mut self) -> Result<String, Errno> {
        self.attach(memory("0755")?.as_fd())
    }

    /// Lays places over each other, the first on top, and gives the root of what they are together. Nobody writes there.
    pub(super) fn overlay(
        &mut self,
        layers: &[String],
        flags: MountFlags,
    ) -> Result<OwnedFd, Errno> {
        // A layer could say that a folder of it is another one of those below, which a unit may not see.
        let options = format!(
            "lowerdir={},redirect_dir=nofollow,metacopy=off",
            layers.join(":")
        );
        if options.len() >= MAX_OPTIONS {
            return Err(Errno::TOOBIG);
        }
        let options = CString::new(options).map_err(|_| Errno::INVAL)?;
        let name = self.make_place()?;
        self.inside(|| {
            let flags = flags | MountFlags::RDONLY;
            mount("overlay", &name, "overlay", flags, options.as_c_str())
        })?;
        self.open_place(&name)
    }

    /// Takes everything away. Copies of what was here stay, where they are by now.
    pub(super) fn remove(self) -> Result<(), Errno> {
        self.inside(|| unmount(".", UnmountFlags::DETACH))
    }

    /// Does something in the folder, by whatever path that can be reached now, if by any.
    fn inside(&self, act: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        fchdir(&self.folder)?;
        let done = act();
        fchdir(&self.current)?;
        done
    }
}

/// Memory for a few folders.
fn memory(mode: &str) -> Result<OwnedFd, Errno> {
    let parameters = [
        ("source", Some("tmpfs")),
        ("mode", Some(mode)),
        ("size", Some("4m")),
        ("nr_inodes", Some("64k")),
    ];
    let attributes = Attributes {
        no_dev: true,
        access_time: AccessTime::Never,
        ..Attributes::default()
    };
    make_mount("tmpfs", parameters, &attributes, |_, errno| Err(errno))
}
