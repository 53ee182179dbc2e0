//! The system calls that no library makes safely for us, and those that always come in the same shape.

use std::os::fd::{AsRawFd, OwnedFd};

use muster_mounts::{AccessTime, Attributes, Change};
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// How often a lookup is repeated that something else's renaming disturbed.
const MAX_ATTEMPTS: usize = 32;

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Debug, Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Opens what is at a path below a root, for its place alone. A symlink anywhere in it is an error: planning has followed
/// them all, so it is one that somebody put there since.
pub(super) fn open_place(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let inside = path.trim_start_matches('/');
    let inside = if inside.is_empty() { "." } else { inside };
    repeated(|| {
        openat2(
            root,
            inside,
            OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    })
}

/// Opens a folder of a root for its place alone. A symlink anywhere in it is an error.
pub(super) fn open_folder_in(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    repeated(|| openat2(root, path, flags, Mode::empty(), resolve))
}

/// Opens a folder of a root for its place alone. Symlinks are followed, and lead nowhere else than into the same root.
pub(super) fn open_inside(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    resolve_inside(root, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens something of a root to read it, with symlinks as in [`open_inside`].
pub(super) fn read_inside(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    resolve_inside(root, path, OFlags::RDONLY | OFlags::NOCTTY | flags)
}

fn resolve_inside(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    repeated(|| openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve))
}

/// Repeats a lookup that something else's renaming disturbed.
fn repeated(look_up: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    for _ in 0..MAX_ATTEMPTS {
        match look_up() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// A copy of the mount at a place without what is mounted below it, attached nowhere.
pub(super) fn copy_alone(place: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match copy_mount(place, false) {
        // In a namespace of users what is mounted below cannot be left out: it may be there to hide something.
        Err(Errno::INVAL) => copy_mount(place, true),
        copy => copy,
    }
}

/// A copy of the mount at a place, attached nowhere.
pub(super) fn copy_mount(place: BorrowedFd<'_>, recursive: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(place, "", flags)
}

/// Attaches a mount on top of whatever is at a place.
pub(super) fn attach_mount(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags)
}

/// Makes a file system that is attached nowhere. A parameter that the kernel does not know goes to `unknown`, which says
/// whether that is an error.
pub(super) fn make_mount<'p>(
    kind: &str,
    parameters: impl IntoIterator<Item = (&'p str, Option<&'p str>)>,
    attributes: &Attributes,
    mut unknown: impl FnMut(&str, Errno) -> Result<(), Errno>,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in parameters {
        let set = match value {
            Some(value) => fsconfig_set_string(&context, name, value),
            None => fsconfig_set_flag(&context, name),
        };
        set.or_else(|errno| unknown(name, errno))?;
    }
    fsconfig_create(&context)?;
    let flags = attribute_flags(attributes);
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

fn attribute_flags(attributes: &Attributes) -> MountAttrFlags {
    let mut flags = match attributes.access_time {
        AccessTime::Relative => MountAttrFlags::MOUNT_ATTR_RELATIME,
        AccessTime::Never => MountAttrFlags::MOUNT_ATTR_NOATIME,
        AccessTime::Always => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
    };
    for (wanted, flag) in [
        (attributes.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (attributes.no_suid, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (attributes.no_dev, MountAttrFlags::MOUNT_ATTR_NODEV),
        (attributes.no_exec, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (
            attributes.no_symlinks,
            MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW,
        ),
        (
            attributes.no_folder_time,
            MountAttrFlags::MOUNT_ATTR_NODIRATIME,
        ),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    flags
}

/// Changes a mount and all mounts below it. The place must be the root of a mount.
pub(super) fn change_mounts(mount: BorrowedFd<'_>, change: Change) -> Result<(), Errno> {
    let (read_only, no_exec) = (
        u64::from(MountAttrFlags::MOUNT_ATTR_RDONLY.bits()),
        u64::from(MountAttrFlags::MOUNT_ATTR_NOEXEC.bits()),
    );
    let mut attr = MountAttr::default();
    match change.read_only {
        Some(true) => attr.attr_set |= read_only,
        Some(false) => attr.attr_clr |= read_only,
        None => {}
    }
    match change.exec {
        Some(false) => attr.attr_set |= no_exec,
        Some(true) => attr.attr_clr |= no_exec,
        None => {}
    }
    if change.plain {
        let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        attr.attr_set |= u64::from(plain.bits());
    }
    if attr.attr_set == 0 && attr.attr_clr == 0 {
        return Ok(());
    }
    mount_setattr(mount, &attr)
}

/// Leaves nothing of a mount that could be used.
pub(super) fn seal_mount(mount: BorrowedFd<'_>) -> Result<(), Errno> {
    let attr = MountAttr {
        attr_set: u64::from(
            (MountAttrFlags::MOUNT_ATTR_RDONLY
                | MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOEXEC)
                .bits(),
        ),
        ..MountAttr::default()
    };
    mount_setattr(mount, &attr)
}

#[expect(unsafe_code, reason = "no library offers this system call")]
fn mount_setattr(mount: BorrowedFd<'_>, attr: &MountAttr) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, the path is a text with a zero behind it, and the kernel reads as many bytes of
    // `attr` as it is told that it has.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    done(result)
}

/// What the C library's way of telling errors says.
pub(super) fn done(result: i64) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Opens a folder for its place alone, following symlinks.
pub(super) fn open_folder(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    rustix::fs::open(path, flags, Mode::empty())
}
