//! Directives that a unit has and that nobody carries out.

use muster_unit_file::config::{ExecContext, UnitConfig};

/// Their names. A process with all privileges is not confined anyway; what a unit's group may use is a matter of its own.
pub(crate) fn directives(config: &UnitConfig, privileged: bool) -> Vec<&'static str> {
    let mut found = Vec::new();
    if !privileged {
        confinement(&config.exec, &mut found);
    }
    found
}

/// What has no effect here and takes no rights away that a process could do without being told.
fn confinement(exec: &ExecContext, found: &mut Vec<&'static str>) {
    // There is one log.
    if exec.logging.namespace.is_some() {
        found.push("LogNamespace");
    }
}
