//! Another root: put together at a place of its own, then entered.

use std::os::fd::OwnedFd;

use muster_mounts::Root;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_move, unmount};
use rustix::process::{chdir, chroot, fchdir, pivot_root};

use super::calls::{attach_mount, copy_mount, open_folder};
use super::image::{Mounted, Opened};
use super::inaccessible::make_folder;
use super::{ViewError, refused};
use crate::step::Step;

/// Where another root is put together. Every process has its own there, in its own namespace.
const STAGE: &str = "/run/muster/unit-root";

/// The tree of another root, attached nowhere yet.
pub(super) fn mount_root(root: &Root) -> Result<Mounted, ViewError> {
    match root {
        Root::Folder(path) => {
            let failed = |errno| refused(errno, format!("RootDirectory: cannot open {path}"));
            let folder = open_folder(path).map_err(failed)?;
            let copy = copy_mount(folder.as_fd(), true);
            copy.map(Mounted::just).map_err(|errno| {
                let detail = format!("RootDirectory: cannot copy the mounts of {path}");
                refused(errno, detail)
            })
        }
        Root::Image(image) => Opened::open("RootImage", image, false)?.mount(),
    }
}

/// Attaches a tree where another root is put together, over what is there, and gives its place. Whoever may not make such a
/// place puts the root together where it comes from.
pub(super) fn stage(mount: BorrowedFd<'_>, root: Option<&Root>) -> Result<OwnedFd, Errno> {
    let (path, place) = match (open_stage(), root) {
        (Err(Errno::ACCESS | Errno::PERM | Errno::ROFS), Some(Root::Folder(path))) => {
            (&**path, open_folder(path)?)
        }
        (place, _) => (STAGE, place?),
    };
    attach_mount(mount, place.as_fd())?;
    open_folder(path)
}

fn open_stage() -> Result<OwnedFd, Errno> {
    match open_folder(STAGE) {
        Err(Errno::NOENT) => {
            make_folder("/run/muster")?;
            make_folder(STAGE)?;
            open_folder(STAGE)
        }
        place => place,
    }
}

/// Makes the place the root of this process and leaves nothing of the machine's.
pub(super) fn enter(root: BorrowedFd<'_>) -> Result<(), ViewError> {
    let failed = |what: &'static str| {
        move |errno| ViewError {
            step: Step::Chroot,
            errno,
            detail: format!("cannot {what}"),
        }
    };
    fchdir(root).map_err(failed("enter the other root"))?;
    match pivot_root(".", ".") {
        Ok(()) => {
            // The old root is now mounted over the new one.
            unmount(".", UnmountFlags::DETACH).map_err(failed("detach the machine's root"))?;
        }
        // The root of an early boot, or of a process in a root that is no mount, cannot be swapped.
        Err(Errno::INVAL) => {
            match mount_move(".", "/") {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(failed("move the other root to /")(errno)),
            }
            chroot(".").map_err(failed("change the root"))?;
        }
        Err(errno) => return Err(failed("swap roots")(errno)),
    }
    chdir("/").map_err(failed("enter /"))
}
