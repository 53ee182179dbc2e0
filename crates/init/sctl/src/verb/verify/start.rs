//! Whether units could be started together with what they need.

use std::collections::{HashSet, VecDeque};

use muster_engine::dep::DepKind;
use muster_unit_file::config::LoadState;
use muster_unit_file::name::UnitName;
use muster_units::Graph;

/// What is said of a unit that cannot be used.
pub(super) fn unusable(name: &UnitName, state: LoadState) -> String {
    match state {
        LoadState::NotFound => format!("Unit {name} not found."),
        LoadState::Masked => format!("Unit {name} is masked."),
        LoadState::BadSetting => format!("Unit {name} has a bad unit file setting."),
        LoadState::Loaded | LoadState::Error => format!("Unit {name} failed to load properly."),
    }
}

/// What keeps a unit from being started: everything that it strictly needs must be usable.
pub(super) fn problems(graph: &Graph, name: &UnitName) -> Vec<String> {
    const NEEDS: [DepKind; 2] = [DepKind::Requires, DepKind::BindsTo];
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from([name.clone()]);
    while let Some(next) = queue.pop_front() {
        let Some(unit) = graph.unit(&next) else {
            continue;
        };
        if !seen.insert(unit.name().clone()) {
            continue;
        }
        let state = unit
            .config()
            .map_or(LoadState::NotFound, |config| config.load_state);
        if state != LoadState::Loaded {
            let reason = unusable(unit.name(), state);
            found.push(format!("Failed to create {name}/start: {reason}"));
            continue;
        }
        let edges = unit.edges().filter(|(kind, _)| NEEDS.contains(kind));
        queue.extend(edges.map(|(_, other)| other.clone()));
    }
    found
}
