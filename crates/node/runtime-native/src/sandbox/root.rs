//! The root that the program sees, built in a mount namespace of its own and then taken as the root.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_bundle::{Place, rootfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::pivot_root;

use super::{Dropped, SandboxError, must};
use crate::plan::{Bind, Plan};

/// Devices that every program may count on.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Bytes of `/dev/shm` and `/run`.
const MEMORY_SIZE: u64 = 16 << 20;

pub(super) fn build(
    place: &Place,
    plan: &Plan,
    has_users: bool,
    dropped: &mut Dropped,
) -> Result<(), SandboxError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    must("keep mounts to itself", mount_change("/", private))?;
    let root = place.rootfs();
    let owner = rustix::process::geteuid().as_raw();
    rootfs::mount_layers(place, &plan.layers, owner).map_err(SandboxError::Rootfs)?;
    for folder in &plan.beside {
        show_beside(&root, folder)?;
    }
    kernel(&root, has_users, dropped)?;
    let tmp = [("/tmp", plan.tmp_size), ("/run", MEMORY_SIZE)];
    for (target, size) in tmp {
        in_memory(&root, Path::new(target), size)?;
    }
    for bind in &plan.binds {
        show(&root, bind)?;
    }
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    must(
        "make the root read-only",
        mount_remount(&root, read_only, ""),
    )?;
    must("take the root", take(&root))
}

/// A folder of the host, with the image's own of the same name on top of it.
fn show_beside(root: &Path, folder: &Path) -> Result<(), SandboxError> {
    let Ok(found) = fs::symlink_metadata(folder) else {
        // Not every host has every folder.
        return Ok(());
    };
    let target = below(root, folder);
    let has_own = fs::symlink_metadata(&target);
    if found.is_symlink() {
        // As on the host (`/bin` is `usr/bin`), unless the image has something there.
        if has_own.is_err() {
            let leads = must("read a link of the host", fs::read_link(folder))?;
            must(
                "make a link as the host's",
                std::os::unix::fs::symlink(leads, &target),
            )?;
        }
        return Ok(());
    }
    match has_own {
        Ok(own) if own.is_dir() => {
            let merged = merge(&target, folder);
            must("show a folder of the host below the image's", merged)
        }
        Ok(_) => Ok(()),
        Err(_) => {
            rootfs::make_mount_point(root, folder, true).map_err(SandboxError::Rootfs)?;
            must("show a folder of the host", bind_folder(folder, &target))?;
            must("show a folder of the host", read_only(&target, true))
        }
    }
}

/// Without what is mounted below it, where that can be left out: within a user namespace it cannot, since it may be there to hide
/// something.
fn bind_folder(folder: &Path, target: &Path) -> rustix::io::Result<()> {
    match mount_bind(folder, target) {
        Err(rustix::io::Errno::INVAL) => mount_bind_recursive(folder, target),
        outcome => outcome,
    }
}

fn merge(image: &Path, host: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let (upper, lower) = (fs::File::open(image)?, fs::File::open(host)?);
    let by_descriptor = |file: &fs::File| format!("/proc/self/fd/{}", file.as_raw_fd());
    let options = format!(
        "lowerdir={}:{}",
        by_descriptor(&upper),
        by_descriptor(&lower)
    );
    let options = CString::new(options)?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    mount("overlay", image, "overlay", flags, options.as_c_str()).map_err(Into::into)
}

/// `/proc` and `/dev`. Mount points are made on top of the image, so nothing of it is changed.
fn kernel(root: &Path, has_users: bool, dropped: &mut Dropped) -> Result<(), SandboxError> {
    let point = |target: &str, is_folder| {
        let made = rootfs::make_mount_point(root, Path::new(target), is_folder);
        made.map_err(SandboxError::Rootfs)
    };
    point("/proc", true)?;
    let proc = root.join("proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let own = mount("proc", &proc, "proc", flags, c"hidepid=invisible");
    if has_users || own.is_err() {
        if own.is_err() {
            must("show /proc", mount_bind_recursive("/proc", &proc))?;
        }
        dropped
            .0
            .push("a /proc without other users' processes: the kernel refuses it here".to_owned());
    }
    point("/dev", true)?;
    in_memory(root, Path::new("/dev"), MEMORY_SIZE)?;
    for device in DEVICES {
        let path = format!("/dev/{device}");
        let bind = Bind {
            source: PathBuf::from(&path),
            target: PathBuf::from(&path),
            read_only: false,
            is_device: true,
        };
        show(root, &bind)?;
    }
    point("/dev/shm", true)?;
    in_memory(root, Path::new("/dev/shm"), MEMORY_SIZE)
}

fn in_memory(root: &Path, target: &Path, size: u64) -> Result<(), SandboxError> {
    rootfs::make_mount_point(root, target, true).map_err(SandboxError::Rootfs)?;
    let mode = if target == Path::new("/dev") {
        "755"
    } else {
        "1777"
    };
    let options = CString::new(format!("mode={mode},size={size}")).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let path = below(root, target);
    must(
        "mount memory",
        mount("tmpfs", &path, "tmpfs", flags, options.as_c_str()),
    )
}

fn show(root: &Path, bind: &Bind) -> Result<(), SandboxError> {
    let is_folder = bind.source.is_dir();
    // Below a folder of the host nothing can be made; what is there already is covered.
    let made = rootfs::make_mount_point(root, &bind.target, is_folder);
    made.map_err(SandboxError::Rootfs)?;
    let target = below(root, &bind.target);
    must(
        "show a part of the host",
        mount_bind_recursive(&bind.source, &target),
    )?;
    if bind.is_device {
        return Ok(());
    }
    must(
        "show a part of the host",
        read_only(&target, bind.read_only),
    )
}

/// Nothing on it is a device or gives privileges; and it may not be written to, if so.
fn read_only(target: &Path, is_read_only: bool) -> rustix::io::Result<()> {
    let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    if is_read_only {
        flags |= MountFlags::RDONLY;
    }
    match mount_remount(target, flags, "") {
        // Within a user namespace, what the host has forbidden about a mount cannot be allowed again by leaving it out.
        Err(rustix::io::Errno::PERM) => mount_remount(
            target,
            flags | MountFlags::NOEXEC | MountFlags::RELATIME,
            "",
        ),
        outcome => outcome,
    }
}

fn below(root: &Path, target: &Path) -> PathBuf {
    root.join(target.strip_prefix("/").unwrap_or(target))
}

/// The old root ends up on top of the new one, and is taken off.
fn take(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}
