//! The kernel's objects as a process in a network of its own sees them.
//!
//! `/sys` shows the links of the network in which it was mounted. One that is made anew has what the machine has mounted below
//! its own: control groups, the kernel's debugging, and whatever a container covers there.

use muster_mounts::Change;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, fstatvfs, statx};
use rustix::io::Errno;

use super::calls::{change_mounts, copy_mount, make_mount, open_place};
use super::fresh::{KERNELS, Made};
use super::trees::Trees;

const PLACE: &str = "/sys";
/// Where something may be mounted below.
const PLACES: [&str; 13] = [
    "devices/virtual/powercap",
    "firmware",
    "firmware/efi/efivars",
    "fs/bpf",
    "fs/cgroup",
    "fs/fuse/connections",
    "fs/pstore",
    "fs/selinux",
    "fs/smackfs",
    "kernel/config",
    "kernel/debug",
    "kernel/security",
    "kernel/tracing",
];

/// Makes them anew with the same below them, or copies the machine's where the caller has no rights over its network.
pub(super) fn make(trees: &Trees, change: Change) -> Result<Made, (Errno, String)> {
    let cannot = |what: &str| {
        let what = format!("{what} {PLACE}");
        move |errno| (errno, what)
    };
    let machines = open_place(trees.machine(), PLACE).map_err(cannot("open"))?;
    let made = match anew(&machines) {
        Err(Errno::PERM | Errno::ACCESS | Errno::NODEV) => {
            Made::just(copy_mount(machines.as_fd(), true).map_err(cannot("copy the mount of"))?)
        }
        made => made.map_err(cannot("make anew"))?,
    };
    let copies = made.inside.iter().map(|(_, copy)| copy);
    for mount in copies.chain([&made.mount]) {
        change_mounts(mount.as_fd(), change).map_err(cannot("change the rights of"))?;
    }
    Ok(made)
}

fn anew(machines: &OwnedFd) -> Result<Made, Errno> {
    let mut attributes = KERNELS;
    // What the machine itself lets nobody write stays so.
    attributes.read_only = fstatvfs(machines)?
        .f_flag
        .contains(StatVfsMountFlags::RDONLY);
    let source = [("source", Some("sysfs"))];
    let mount = make_mount("sysfs", source, &attributes, |_, errno| Err(errno))?;
    let mut made = Made::just(mount);
    for name in PLACES {
        // What is inside of another one comes with it.
        let is_inside = |(known, _): &(&str, _)| {
            name.strip_prefix(*known)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        if !made.inside.iter().any(is_inside)
            && let Some(copy) = mounted(machines, name)?
        {
            made.inside.push((name, copy));
        }
    }
    Ok(made)
}

/// A copy of what is mounted right at a place, with all below it.
fn mounted(machines: &OwnedFd, name: &str) -> Result<Option<OwnedFd>, Errno> {
    let place = match open_place(machines.as_fd(), name) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        place => place?,
    };
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let stat = statx(&place, "", flags, StatxFlags::TYPE)?;
    if !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(None);
    }
    copy_mount(place.as_fd(), true).map(Some)
}
