//! What `systemctl show` prints: every property of systemd 252 by name, in its format and order.

mod cgroup;
mod command;
mod exec;
mod kinds;
mod limits;
mod sandbox;
mod service;
mod sheet;
mod socket;
mod syscalls;
mod unit;

use std::sync::Arc;

use muster_unit_file::config::{UnitConfig, UnitKind};
use muster_unit_file::name::UnitType;

use crate::graph::Unit;
use crate::host::Host;
use crate::runtime::Runtime;
use sheet::Sheet;

/// What is shown of a unit, and whether empty properties are left out.
#[derive(Clone, Copy, Debug)]
pub struct Show<'a> {
    /// The machine.
    pub host: &'a Host,
    /// What happened to the unit.
    pub runtime: &'a Runtime,
    /// Empty properties too, as with `--all`.
    pub all: bool,
}

/// Everything that the parts of a sheet need.
struct Subject<'a> {
    unit: Unit<'a>,
    config: Arc<UnitConfig>,
    host: &'a Host,
    runtime: &'a Runtime,
}

impl Subject<'_> {
    /// Its files were read, so that its settings and the defaults apply.
    fn is_configured(&self) -> bool {
        crate::implicit::is_complete(&self.config)
    }
}

/// The properties of a unit: first those of its type, then those that every unit has.
#[must_use]
pub fn show(unit: Unit<'_>, show: Show<'_>) -> Vec<(&'static str, String)> {
    let config = unit
        .config()
        .cloned()
        .unwrap_or_else(|| Arc::new(UnitConfig::new(unit.name().clone())));
    let subject = Subject {
        unit,
        config,
        host: show.host,
        runtime: show.runtime,
    };
    let mut sheet = Sheet::new(show.all, &show.host.zone);
    add_type(&subject, &mut sheet);
    unit::add(&subject, &mut sheet);
    sheet.lines
}

fn add_type(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    match &subject.config.kind {
        UnitKind::Service(service) => service::add(subject, service, sheet),
        UnitKind::Socket(socket) => socket::add(subject, socket, sheet),
        UnitKind::Mount(mount) => kinds::add_mount(subject, mount, sheet),
        UnitKind::Automount(automount) => kinds::add_automount(subject, automount, sheet),
        UnitKind::Swap(swap) => kinds::add_swap(subject, swap, sheet),
        UnitKind::Timer(timer) => kinds::add_timer(subject, timer, sheet),
        UnitKind::Path(path) => kinds::add_path(subject, path, sheet),
        UnitKind::Scope(scope) => kinds::add_scope(subject, scope, sheet),
        UnitKind::Device => sheet.text("SysFSPath", &*subject.runtime.sysfs_path),
        UnitKind::Slice | UnitKind::Target => {}
    }
    let kind = subject.config.name.unit_type();
    if crate::implicit::has_cgroup(kind) {
        cgroup::add(subject, sheet);
    }
    let executes = matches!(
        kind,
        UnitType::Service | UnitType::Socket | UnitType::Mount | UnitType::Swap
    );
    if executes {
        exec::add(subject, sheet);
        sandbox::add(subject, sheet);
    }
    if executes || kind == UnitType::Scope {
        kinds::add_kill(subject, sheet);
    }
}
