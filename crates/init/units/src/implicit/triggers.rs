//! Sockets, timers and watched paths: what they start, and when they are ready to.

use muster_engine::dep::DepKind;
use muster_unit_file::config::{PathConfig, SocketConfig, TimerConfig, TimerSpec, UnitConfig};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::value::network::{ListenAddress, ListenKind};

use super::{Own, exec};
use crate::host::Host;

/// The unit that another one starts: as stated, or the service of the same name.
pub(crate) fn triggered(config: &UnitConfig, stated: Option<&UnitName>) -> Option<UnitName> {
    stated
        .cloned()
        .or_else(|| config.name.with_type(UnitType::Service).ok())
}

fn add_trigger(own: &mut Own, unit: Option<UnitName>) {
    if let Some(unit) = unit {
        own.add_unit(&[DepKind::Before, DepKind::Triggers], &unit);
    }
}

fn add_defaults(config: &UnitConfig, target: &str, own: &mut Own) {
    if config.default_dependencies {
        own.add(&[DepKind::Before], target);
        own.after_sysinit();
        own.ends_at("shutdown.target");
    }
}

pub(super) fn add_socket(config: &UnitConfig, socket: &SocketConfig, host: &Host, own: &mut Own) {
    // With Accept=yes every connection has an instance of its own.
    if !socket.accept || !socket.can_accept() {
        add_trigger(own, triggered(config, socket.service.as_ref()));
    }
    for listen in &socket.listen {
        if let ListenAddress::Path(path) = &listen.address
            && listen.kind != ListenKind::MessageQueue
        {
            own.need_mounts_for(path);
        }
    }
    if let Some(device) = socket
        .bind_to_device
        .as_deref()
        .filter(|name| *name != "lo")
        && let Ok(device) = UnitName::from_path(
            &format!("/sys/subsystem/net/devices/{device}"),
            UnitType::Device,
        )
    {
        own.add_unit(&[DepKind::BindsTo, DepKind::After], &device);
    }
    if !socket.commands.is_empty() {
        exec::add(config, host, own);
    }
    add_defaults(config, "sockets.target", own);
}

pub(super) fn add_timer(config: &UnitConfig, timer: &TimerConfig, own: &mut Own) {
    add_trigger(own, triggered(config, timer.unit.as_ref()));
    if timer.persistent {
        own.need_mounts_for("/var/lib/systemd/timers");
    }
    let on_calendar = timer
        .timers
        .iter()
        .any(|spec| matches!(spec, TimerSpec::Calendar(_)));
    if config.default_dependencies && on_calendar {
        // Moments of the calendar mean little before the clock is right.
        own.add(&[DepKind::After], "time-sync.target");
        own.add(&[DepKind::After], "time-set.target");
    }
    add_defaults(config, "timers.target", own);
}

pub(super) fn add_path(config: &UnitConfig, path: &PathConfig, own: &mut Own) {
    add_trigger(own, triggered(config, path.unit.as_ref()));
    for spec in &path.paths {
        own.need_mounts_for(&spec.path);
    }
    add_defaults(config, "paths.target", own);
}
