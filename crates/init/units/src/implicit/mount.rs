//! Mounts, automounts and swaps.

use muster_engine::dep::DepKind;
use muster_unit_file::config::{AutomountConfig, MountConfig, SwapConfig, UnitConfig, UnitKind};
use muster_unit_file::name::{UnitName, UnitType, escape_path};

use super::Own;
use crate::host::Host;

/// File systems that live on other machines.
const NETWORK_TYPES: [&str; 13] = [
    "afs",
    "ceph",
    "cifs",
    "smb3",
    "smbfs",
    "sshfs",
    "ncpfs",
    "ncp",
    "nfs",
    "nfs4",
    "gfs",
    "gfs2",
    "glusterfs",
];
const MORE_NETWORK_TYPES: [&str; 4] = ["pvfs2", "ocfs2", "lustre", "davfs"];

/// Mounts that come and go outside of the usual order: the root, `/usr`, and the kernel's own.
pub(crate) fn is_extrinsic(config: &UnitConfig) -> bool {
    let UnitKind::Mount(mount) = &config.kind else {
        return false;
    };
    let Some(place) = mount.r#where.as_ref().map(|path| &*path.0) else {
        return false;
    };
    let below = |folder: &str| {
        place
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    matches!(place, "/" | "/usr")
        || ["/run/initramfs", "/run/nextroot", "/proc", "/sys", "/dev"]
            .into_iter()
            .any(below)
}

pub(crate) fn has_option(options: Option<&str>, wanted: &str) -> bool {
    options
        .into_iter()
        .flat_map(|options| options.split(','))
        .any(|option| option.split('=').next() == Some(wanted))
}

fn is_network(mount: &MountConfig) -> bool {
    let fs_type = mount.fs_type.as_deref().unwrap_or("");
    let fs_type = fs_type.strip_prefix("fuse.").unwrap_or(fs_type);
    has_option(mount.options.as_deref(), "_netdev")
        || NETWORK_TYPES.contains(&fs_type)
        || MORE_NETWORK_TYPES.contains(&fs_type)
}

fn is_bind(mount: &MountConfig) -> bool {
    ["bind", "rbind"]
        .iter()
        .any(|option| has_option(mount.options.as_deref(), option))
        || matches!(mount.fs_type.as_deref(), Some("bind" | "rbind"))
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

fn is_device(path: &str) -> bool {
    ["/dev/", "/sys/"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

pub(super) fn add(config: &UnitConfig, mount: &MountConfig, own: &mut Own) {
    let Some(place) = mount.r#where.as_ref().map(|path| &*path.0) else {
        return;
    };
    if place != "/" {
        own.need_mounts_for(parent(place));
    }
    let options = mount.options.as_deref();
    let network = is_network(mount);
    if let Some(what) = mount.what.as_deref().filter(|what| what.starts_with('/')) {
        let is_loop = has_option(options, "loop");
        if is_bind(mount) || is_loop || !network {
            own.need_mounts_for(what);
        }
        if is_device(what) && !is_bind(mount) && place != "/" {
            let kinds: &[DepKind] = if has_option(options, "x-systemd.device-bound") {
                &[DepKind::BindsTo]
            } else if config.fragment.is_some() {
                // It is stopped with the device, but not started again when the device returns.
                &[DepKind::Requires, DepKind::StopPropagatedFrom]
            } else {
                &[DepKind::Requires]
            };
            add_device(what, kinds, own);
        }
    }
    if !config.default_dependencies || is_extrinsic(config) {
        return;
    }
    let (before, after) = if network {
        ("remote-fs.target", "remote-fs-pre.target")
    } else {
        ("local-fs.target", "local-fs-pre.target")
    };
    if !has_option(options, "nofail") {
        own.add(&[DepKind::Before], before);
    }
    own.add(&[DepKind::After], after);
    own.ends_at("umount.target");
    if network {
        own.add(&[DepKind::After], "network.target");
        own.add(&[DepKind::After, DepKind::Wants], "network-online.target");
    }
    if mount.fs_type.as_deref() == Some("tmpfs") {
        // What is in memory may have to be swapped in to be thrown away.
        own.add(&[DepKind::After], "swap.target");
    }
}

/// A device that must be there, and whatever prepares it.
fn add_device(path: &str, kinds: &[DepKind], own: &mut Own) {
    if let Ok(device) = UnitName::from_path(path, UnitType::Device) {
        own.add_unit(kinds, &device);
        own.add_unit(&[DepKind::After], &device);
    }
    if let Ok(escaped) = escape_path(path) {
        own.add(&[DepKind::After], &format!("blockdev@{escaped}.target"));
    }
}

pub(super) fn add_automount(config: &UnitConfig, automount: &AutomountConfig, own: &mut Own) {
    if let Ok(mount) = config.name.with_type(UnitType::Mount) {
        own.add_unit(&[DepKind::Before, DepKind::Triggers], &mount);
    }
    if let Some(place) = &automount.r#where {
        own.need_mounts_for(parent(&place.0));
    }
    if config.default_dependencies {
        own.add(&[DepKind::Before], "local-fs.target");
        own.add(&[DepKind::After], "local-fs-pre.target");
        own.ends_at("umount.target");
    }
}

pub(super) fn add_swap(config: &UnitConfig, swap: &SwapConfig, host: &Host, own: &mut Own) {
    if let Some(what) = &swap.what {
        own.need_mounts_for(&what.0);
        if is_device(&what.0) {
            add_device(&what.0, &[DepKind::Requires], own);
        } else {
            // A file may lie on the root file system, which begins read-only.
            own.add(&[DepKind::After], "systemd-remount-fs.service");
        }
    }
    if config.default_dependencies && !host.unsupported.contains(&UnitType::Swap) {
        if !has_option(swap.options.as_deref(), "nofail") {
            own.add(&[DepKind::Before], "swap.target");
        }
        own.ends_at("umount.target");
    }
}
