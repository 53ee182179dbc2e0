//! A unit's secrets, in a file system of their own that is never swapped out and that nobody can write to.
//!
//! The file system is filled before it is seen anywhere, then made read-only, then put into its place: no moment exists in
//! which a secret has the wrong owner. All commands of a run share it: the first one makes it, the others find it, and
//! the manager removes it. They are the user's whoever comes first: also where that is a command that keeps all rights.

mod claim;
mod sources;

use std::path::Path;
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create,
    fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

use super::outcome::{Reporter, SetupError};
use crate::sandbox::Sandbox;
use crate::step::Step;
use claim::Claim;

/// How long another command of the unit may take to read the secrets. A unit's own time to start is rarely longer.
const PATIENCE: Duration = Duration::from_secs(90);
/// Whoever has the folder reads it.
const FOLDER_MODE: u32 = 0o500;
const FILE_MODE: u32 = 0o400;
/// The folder that all units' folders are in, if it is missing.
const PARENT_MODE: u32 = 0o755;

/// A secret with its name.
struct Secret {
    name: String,
    data: Vec<u8>,
}

/// Puts the secrets into the folder of the unit, if another command of the same run has not done so. `owner` is whose they
/// are; `None` is whoever this process is.
pub(super) fn set_up(
    sandbox: &Sandbox,
    owner: Option<(u32, u32)>,
    reporter: &Reporter,
) -> Result<(), SetupError> {
    let Some(folder) = &sandbox.credentials_folder else {
        return Ok(());
    };
    let path = Path::new(&**folder);
    let failed = |errno: Errno| {
        let detail = format!("cannot make the folder {folder} for credentials");
        SetupError::new(Step::Credentials, errno, detail)
    };
    let parent = path.parent().filter(|parent| parent.is_absolute());
    let parent = parent.ok_or_else(|| failed(Errno::INVAL))?;
    open_parent(parent).map_err(failed)?;
    // Held to the end of this function.
    let claimed = claim::take(path, PATIENCE).map_err(|errno| match errno {
        Errno::TIMEDOUT => {
            let detail = format!("another command is still filling {folder} with credentials");
            SetupError::new(Step::Credentials, errno, detail)
        }
        errno => failed(errno),
    })?;
    let Claim::Ours(_held) = claimed else {
        return Ok(());
    };
    let secrets = sources::gather(sandbox)?;
    let owner = Owner::of(owner);
    match fill_own(&secrets, owner) {
        Ok(made) => {
            let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&made, "", CWD, path, whole).map_err(failed)
        }
        // A container without the right to mount: the folder itself has to do, closed to everybody else.
        Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::NODEV) => {
            reporter.dropped(
                "LoadCredential",
                "no file system can be mounted for credentials, so they lie in a plain folder",
            );
            fill_plain(path, &secrets, owner).map_err(failed)
        }
        Err(errno) => Err(failed(errno)),
    }
}

fn open_parent(parent: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(parent, flags, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {
            if let Some(above) = parent.parent() {
                open_parent(above)?;
            }
            match rustix::fs::mkdir(parent, Mode::from_raw_mode(PARENT_MODE)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        }
        opened => opened,
    }
}

#[derive(Clone, Copy)]
struct Owner {
    uid: Uid,
    gid: Gid,
}

impl Owner {
    fn of(stated: Option<(u32, u32)>) -> Self {
        match stated {
            Some((uid, gid)) => Self {
                uid: Uid::from_raw(uid),
                gid: Gid::from_raw(gid),
            },
            None => Self {
                uid: rustix::process::geteuid(),
                gid: rustix::process::getegid(),
            },
        }
    }
}

/// A file system with the secrets, mounted nowhere yet, read-only.
fn fill_own(secrets: &[Secret], owner: Owner) -> Result<OwnedFd, Errno> {
    let context = fsopen("ramfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "mode", "0700")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    fill(mounted.as_fd(), secrets, owner)?;
    fsconfig_set_flag(context.as_fd(), "ro")?;
    fsconfig_reconfigure(context.as_fd())?;
    Ok(mounted)
}

fn fill_plain(path: &Path, secrets: &[Secret], owner: Owner) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    fill(folder.as_fd(), secrets, owner)
}

fn fill(folder: BorrowedFd<'_>, secrets: &[Secret], owner: Owner) -> Result<(), Errno> {
    for secret in secrets {
        // The rest of an earlier attempt has an older secret.
        match rustix::fs::unlinkat(folder, &secret.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let file = rustix::fs::openat(folder, &secret.name, flags, mode)?;
        let mut rest = &secret.data[..];
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = rest.get(written..).unwrap_or(&[]);
        }
        rustix::fs::fchmod(&file, mode)?;
        rustix::fs::fchown(&file, Some(owner.uid), Some(owner.gid))?;
    }
    rustix::fs::chmodat(
        folder,
        ".",
        Mode::from_raw_mode(FOLDER_MODE),
        AtFlags::empty(),
    )?;
    let (uid, gid) = (Some(owner.uid), Some(owner.gid));
    rustix::fs::chownat(folder, ".", uid, gid, AtFlags::empty())
}
