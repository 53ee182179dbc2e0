//! The edges that a unit has by itself: what its files state, what its settings imply, and what its
//! type adds by default.

mod exec;
mod mount;
mod triggers;

use muster_engine::dep::DepKind;
use muster_unit_file::config::{DependencyKind, LoadState, OomMode, UnitConfig, UnitKind};
use muster_unit_file::directives::verify;
use muster_unit_file::name::{UnitName, UnitType, escape};

use crate::host::Host;

pub(crate) use mount::is_extrinsic;

/// What follows from one unit alone.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) edges: Vec<(DepKind, UnitName)>,
    pub(crate) mounts_for: Vec<Box<str>>,
    pub(crate) slice: Option<UnitName>,
}

impl Own {
    /// Adds edges of several kinds to a unit that every system knows by this name.
    fn add(&mut self, kinds: &[DepKind], name: &str) {
        if let Ok(name) = UnitName::new(name) {
            self.add_unit(kinds, &name);
        }
    }

    fn add_unit(&mut self, kinds: &[DepKind], name: &UnitName) {
        for kind in kinds {
            self.edges.push((*kind, name.clone()));
        }
    }

    fn need_mounts_for(&mut self, path: &str) {
        let path = muster_unit_file::value::path::simplify(path);
        if path.starts_with('/') && !self.mounts_for.iter().any(|known| **known == *path) {
            self.mounts_for.push(path.into());
        }
    }

    /// Stopped when the machine goes down, before that goes on.
    fn ends_at(&mut self, target: &str) {
        self.add(&[DepKind::Before, DepKind::Conflicts], target);
    }

    fn after_sysinit(&mut self) {
        self.add(&[DepKind::After, DepKind::Requires], "sysinit.target");
    }
}

/// Everything that follows from a unit alone. Only units whose files were read have settings that
/// imply something.
pub(crate) fn own(config: &UnitConfig, host: &Host) -> Own {
    let mut own = Own::default();
    let usable = matches!(config.load_state, LoadState::Loaded | LoadState::BadSetting);
    if !usable {
        return own;
    }
    for dependency in &config.dependencies {
        own.edges
            .push((dep_kind(dependency.kind), dependency.unit.clone()));
    }
    for path in config.requires_mounts_for.0.iter() {
        own.need_mounts_for(path);
    }
    if let UnitKind::Service(service) = &config.kind {
        for socket in &service.sockets {
            let kinds = [DepKind::Wants, DepKind::After, DepKind::TriggeredBy];
            own.add_unit(&kinds, socket);
        }
    }
    if !is_complete(config) {
        return own;
    }
    add_type(config, host, &mut own);
    if has_cgroup(config.name.unit_type()) {
        own.slice = slice_of(config);
    }
    // What follows happens after the checks, which a unit with a bad setting did not pass.
    if config.load_state != LoadState::Loaded {
        return own;
    }
    if let Some(slice) = own.slice.clone() {
        own.add_unit(&[DepKind::After, DepKind::Requires], &slice);
    }
    let watched = [
        config.resources.managed_oom_swap,
        config.resources.managed_oom_memory_pressure,
    ];
    let watched = watched.contains(&OomMode::Kill) && host.memory_control;
    if watched && !is_perpetual(&config.name) {
        own.add(&[DepKind::After, DepKind::Wants], "systemd-oomd.service");
    }
    own
}

fn add_type(config: &UnitConfig, host: &Host, own: &mut Own) {
    let defaults = config.default_dependencies;
    match &config.kind {
        UnitKind::Service(service) => {
            exec::add(config, host, own);
            exec::add_bus(service, own);
            if defaults {
                own.after_sysinit();
                own.add(&[DepKind::After], "basic.target");
                own.ends_at("shutdown.target");
            }
        }
        UnitKind::Socket(socket) => triggers::add_socket(config, socket, host, own),
        UnitKind::Timer(timer) => triggers::add_timer(config, timer, own),
        UnitKind::Path(path) => triggers::add_path(config, path, own),
        UnitKind::Automount(automount) => mount::add_automount(config, automount, own),
        UnitKind::Mount(mount) => {
            mount::add(config, mount, own);
            exec::add(config, host, own);
        }
        UnitKind::Swap(swap) => {
            mount::add_swap(config, swap, host, own);
            exec::add(config, host, own);
        }
        UnitKind::Slice | UnitKind::Scope(_) => {
            if defaults && !is_perpetual(&config.name) {
                own.ends_at("shutdown.target");
            }
        }
        UnitKind::Target => {
            if defaults && config.name.as_str() != "shutdown.target" {
                own.ends_at("shutdown.target");
            }
        }
        UnitKind::Device => {}
    }
}

/// Whether the files were read to their end. What has a bad setting and still passes the checks was
/// given up in the middle.
pub(crate) fn is_complete(config: &UnitConfig) -> bool {
    match config.load_state {
        LoadState::Loaded => true,
        LoadState::BadSetting => verify(config).is_err(),
        _ => false,
    }
}

/// Whether units of a type have processes, and so a place in the tree of slices.
pub(crate) fn has_cgroup(kind: UnitType) -> bool {
    matches!(
        kind,
        UnitType::Service
            | UnitType::Socket
            | UnitType::Mount
            | UnitType::Swap
            | UnitType::Slice
            | UnitType::Scope
    )
}

/// Units that are never stopped.
pub(crate) fn is_perpetual(name: &UnitName) -> bool {
    matches!(
        name.as_str(),
        "-.slice" | "system.slice" | "init.scope" | "-.mount"
    )
}

/// Whether `isolate` leaves units of a type alone unless they say otherwise.
pub(crate) fn ignored_on_isolate(kind: UnitType) -> bool {
    matches!(
        kind,
        UnitType::Mount
            | UnitType::Automount
            | UnitType::Swap
            | UnitType::Slice
            | UnitType::Scope
            | UnitType::Device
    )
}

/// The slice of a unit: as stated, or by its type and name.
fn slice_of(config: &UnitConfig) -> Option<UnitName> {
    if let Some(parent) = config.name.parent_slice() {
        return Some(parent);
    }
    if config.name.unit_type() == UnitType::Slice {
        return None;
    }
    if let Some(stated) = &config.slice {
        return Some(stated.clone());
    }
    let name = if config.name.instance().is_some() {
        // Hyphens would make levels of slices; the template is one level.
        format!("system-{}.slice", escape(config.name.prefix()))
    } else if is_extrinsic(config) || is_perpetual(&config.name) {
        "-.slice".to_owned()
    } else {
        "system.slice".to_owned()
    };
    UnitName::new(&name).ok()
}

/// The mounts that may lie at or above a path, by the names of their units.
pub(crate) fn mount_names(path: &str) -> impl Iterator<Item = UnitName> {
    let ends = std::iter::once(1).chain(
        path.char_indices()
            .filter(|(n, c)| *c == '/' && *n > 0)
            .map(|(n, _)| n)
            .chain((path.len() > 1).then_some(path.len())),
    );
    let names: Vec<UnitName> = ends
        .filter_map(|end| UnitName::from_path(path.get(..end)?, UnitType::Mount).ok())
        .collect();
    names.into_iter()
}

/// The engine's name for what the files state.
pub(crate) fn dep_kind(kind: DependencyKind) -> DepKind {
    match kind {
        DependencyKind::Requires => DepKind::Requires,
        DependencyKind::Requisite => DepKind::Requisite,
        DependencyKind::Wants => DepKind::Wants,
        DependencyKind::BindsTo => DepKind::BindsTo,
        DependencyKind::PartOf => DepKind::PartOf,
        DependencyKind::Upholds => DepKind::Upholds,
        DependencyKind::Conflicts => DepKind::Conflicts,
        DependencyKind::Before => DepKind::Before,
        DependencyKind::After => DepKind::After,
        DependencyKind::OnSuccess => DepKind::OnSuccess,
        DependencyKind::OnFailure => DepKind::OnFailure,
        DependencyKind::PropagatesReloadTo => DepKind::PropagatesReloadTo,
        DependencyKind::ReloadPropagatedFrom => DepKind::ReloadPropagatedFrom,
        DependencyKind::PropagatesStopTo => DepKind::PropagatesStopTo,
        DependencyKind::StopPropagatedFrom => DepKind::StopPropagatedFrom,
        DependencyKind::JoinsNamespaceOf => DepKind::JoinsNamespaceOf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &str) -> Option<String> {
        let mut config = UnitConfig::new(UnitName::new(name).expect("a name"));
        config.load_state = LoadState::Loaded;
        slice_of(&config).map(|slice| slice.to_string())
    }

    #[test]
    fn a_path_may_lie_on_several_mounts() {
        let names = |path: &str| -> Vec<String> {
            mount_names(path).map(|name| name.to_string()).collect()
        };
        assert_eq!(names("/"), ["-.mount"]);
        assert_eq!(names("/a/b-c"), ["-.mount", "a.mount", "a-b\\x2dc.mount"]);
    }

    #[test]
    fn units_are_in_slices_by_type_and_name() {
        assert_eq!(slice("a.service").as_deref(), Some("system.slice"));
        let template = slice("a-b@c.service");
        assert_eq!(template.as_deref(), Some("system-a\\x2db.slice"));
        assert_eq!(slice("a-b.slice").as_deref(), Some("a.slice"));
        assert_eq!(slice("a.slice").as_deref(), Some("-.slice"));
        assert_eq!(slice("-.slice"), None);
    }

    #[test]
    fn what_was_not_read_implies_nothing() {
        for state in [LoadState::NotFound, LoadState::Masked, LoadState::Error] {
            let mut config = UnitConfig::new(UnitName::new("a.service").expect("a name"));
            config.load_state = state;
            let own = own(&config, &Host::default());
            assert!(own.edges.is_empty() && own.slice.is_none(), "{state:?}");
        }
    }
}
