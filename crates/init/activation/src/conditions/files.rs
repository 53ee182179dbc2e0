//! What conditions want to know about paths.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, StatxFlags};

use super::{Check, ConditionHost};

/// Devices of devices of devices.
const MAX_DEVICE_DEPTH: usize = 16;

pub(super) fn is_mount_point(path: &Path) -> bool {
    // The kernel knows, and follows the path as everybody else does.
    let Ok(real) = path.canonicalize() else {
        return false;
    };
    let asked = rustix::fs::statx(CWD, &real, AtFlags::empty(), StatxFlags::empty());
    asked.is_ok_and(|answer| {
        let root = rustix::fs::StatxAttributes::MOUNT_ROOT;
        answer.stx_attributes_mask.contains(root) && answer.stx_attributes.contains(root)
    })
}

pub(super) fn is_writable(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|stat| !stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}

pub(super) fn is_filled_directory(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

fn regular(path: &Path) -> Option<Metadata> {
    fs::metadata(path).ok().filter(Metadata::is_file)
}

pub(super) fn is_filled_file(path: &Path) -> bool {
    regular(path).is_some_and(|file| file.len() > 0)
}

pub(super) fn is_executable(path: &Path) -> bool {
    regular(path).is_some_and(|file| file.permissions().mode() & 0o111 != 0)
}

/// Whether a path lies on an encrypted device, or on devices that all are.
pub(super) fn is_encrypted(host: &ConditionHost, path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    let device = metadata.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = host
        .below("/sys/dev/block")
        .join(format!("{major}:{minor}"));
    is_encrypted_device(&place, 0)
}

fn is_encrypted_device(place: &Path, depth: usize) -> bool {
    let uuid = crate::files::read_text(&place.join("dm/uuid"), 4096).unwrap_or_default();
    if uuid.starts_with("CRYPT-") {
        return true;
    }
    let Ok(slaves) = fs::read_dir(place.join("slaves")) else {
        return false;
    };
    let mut some = false;
    for slave in slaves.filter_map(Result::ok) {
        some = true;
        if depth >= MAX_DEVICE_DEPTH || !is_encrypted_device(&slave.path(), depth + 1) {
            return false;
        }
    }
    some
}

impl Check<'_> {
    /// Whether `/etc` or `/var` is older than `/usr`, so that it must be brought up to date.
    pub(super) fn needs_update(&self) -> bool {
        let host = self.host;
        if let Some(forced) = host.kernel_switch("systemd.condition-needs-update") {
            return forced;
        }
        let folder = host.below(self.parameter);
        // What cannot be written cannot be updated.
        if !is_writable(&folder) {
            return false;
        }
        let Ok(usr) = fs::metadata(host.below("/usr")) else {
            return false;
        };
        let Ok(updated) = fs::symlink_metadata(folder.join(".updated")) else {
            return true;
        };
        let moment = |metadata: &Metadata| (metadata.mtime(), metadata.mtime_nsec());
        if usr.mtime() != updated.mtime() || updated.mtime_nsec() > 0 {
            return moment(&usr) > moment(&updated);
        }
        // The stamp's file system keeps whole seconds only; the rest is in the file.
        let text = crate::files::read_text(&folder.join(".updated"), 4096).unwrap_or_default();
        let nanos = text
            .lines()
            .find_map(|line| line.strip_prefix("TIMESTAMP_NSEC="));
        let nanos = nanos.and_then(|nanos| nanos.trim().parse::<i128>().ok());
        let of_usr = i128::from(usr.mtime()) * 1_000_000_000 + i128::from(usr.mtime_nsec());
        nanos.is_none_or(|nanos| of_usr > nanos)
    }
}
