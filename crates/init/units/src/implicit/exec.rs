//! What the execution settings of a unit imply.

use muster_engine::dep::DepKind;
use muster_unit_file::config::{ExecOutput, ServiceConfig, ServiceType, UnitConfig};
use muster_unit_file::name::UnitName;

use super::Own;
use crate::effective;
use crate::host::Host;

pub(super) fn add(config: &UnitConfig, host: &Host, own: &mut Own) {
    let exec = &config.exec;
    if let Some(directory) = &exec.working_directory
        && !directory.optional
        && let Some(path) = &directory.path
    {
        own.need_mounts_for(path);
    }
    let images = &exec.images;
    for path in [&images.root_directory, &images.root_image]
        .into_iter()
        .flatten()
    {
        own.need_mounts_for(&path.0);
    }
    for (root, directory) in effective::directories(&exec.directories, &host.specifiers) {
        for name in directory.names.0.iter() {
            let name = name.split(':').next().unwrap_or(name);
            own.need_mounts_for(&format!("{root}/{name}"));
        }
    }
    let directories = &exec.directories;
    let written = [&directories.state, &directories.cache, &directories.logs];
    if written
        .iter()
        .any(|directory| !directory.names.0.is_empty())
    {
        // These may lie on the root file system, which begins read-only.
        own.add(&[DepKind::After], "systemd-remount-fs.service");
    }
    if images.root_image.is_some() {
        // An image appears as a loop device, which the device manager announces.
        own.add(&[DepKind::After], "systemd-udevd.service");
    }
    let mounts = !(images.mount_images.is_empty() && images.extension_images.is_empty());
    let has_image = images.root_image.is_some() || mounts;
    if has_image && effective::restricts_devices(config) {
        // Drivers register their devices before a rule can name them.
        for module in ["loop", "dm_mod", "dm_verity"] {
            let module = format!("modprobe@{module}.service");
            own.add(&[DepKind::After, DepKind::Wants], &module);
        }
    }
    if effective::private_tmp(exec) {
        // Wanted rather than required: a masked tmp.mount leaves /tmp on the root file system.
        own.add(&[DepKind::After, DepKind::Wants], "tmp.mount");
        own.need_mounts_for("/var/tmp");
        own.add(&[DepKind::After], "systemd-tmpfiles-setup.service");
    }
    if let Some(namespace) = &exec.logging.namespace {
        for prefix in ["systemd-journald", "systemd-journald-varlink"] {
            let socket = UnitName::new(&format!("{prefix}@{namespace}.socket"));
            if let Ok(socket) = socket {
                own.add_unit(&[DepKind::After, DepKind::Requires], &socket);
            }
        }
    } else if [effective::stdout(config), effective::stderr(config)]
        .iter()
        .any(goes_to_log)
    {
        own.add(&[DepKind::After], "systemd-journald.socket");
    }
}

fn goes_to_log(output: &ExecOutput) -> bool {
    matches!(
        output,
        ExecOutput::Journal
            | ExecOutput::JournalConsole
            | ExecOutput::Kmsg
            | ExecOutput::KmsgConsole
    )
}

/// A service that takes a bus name needs the bus.
pub(super) fn add_bus(service: &ServiceConfig, own: &mut Own) {
    if service.service_type() == ServiceType::Dbus {
        own.add(&[DepKind::After, DepKind::Requires], "dbus.socket");
    }
}
