//! `show`: properties of units that are not running.

use muster_unit_file::fs::RealFs;
use muster_unit_file::install::{Installer, PresetAction, PresetRules, UnitFileState};
use muster_unit_file::name::UnitName;
use muster_units::closure::Closure;
use muster_units::show::Show as Options;
use muster_units::{Graph, Runtime};
use thiserror::Error;

use super::VerbError;
use crate::cli::Show;
use crate::console::{Console, Exit};
use crate::system::System;

/// Why properties are not shown.
#[derive(Debug, Error)]
pub(crate) enum ShowError {
    /// A template has no properties, its instances do.
    #[error(
        "Failed to get properties: {name} is a template; name an instance of it, such as {example}."
    )]
    Template {
        /// Which.
        name: UnitName,
        /// What could be asked instead.
        example: String,
    },
}

pub(super) fn show(arguments: &Show, console: &mut Console) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let machine = system.machine();
    let mut loader = system.loader();
    let names = system.units_by_pattern(&arguments.units, loader.index(), console)?;
    if let Some(name) = names.iter().find(|name| name.is_template()) {
        let example = format!("{}@NAME.{}", name.prefix(), name.unit_type());
        return Err(ShowError::Template {
            name: name.clone(),
            example,
        }
        .into());
    }
    // Other units' files say who needs a unit, so all of them are read.
    let everything: Vec<UnitName> = loader
        .index()
        .names()
        .filter(|name| !name.is_template())
        .chain(&names)
        .cloned()
        .collect();
    let graph = Graph::new(Closure::new(&mut loader, &machine).of(everything), &machine);
    let wanted: Vec<&str> = arguments
        .properties
        .iter()
        .chain(&arguments.value_properties)
        .map(String::as_str)
        .collect();
    let bare = arguments.value || !arguments.value_properties.is_empty();
    let mut installer = system.installer();
    let presets = installer.presets();
    for (n, name) in names.iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        let Some(unit) = graph.unit(name) else {
            continue;
        };
        let options = Options {
            host: &machine,
            runtime: &file_state(&mut installer, &presets, unit.name()),
            // Who asks for a property wants to see that it is empty.
            all: arguments.all || !wanted.is_empty(),
        };
        for (property, value) in muster_units::show::show(unit, options) {
            if !wanted.is_empty() && !wanted.contains(&property) {
                continue;
            }
            if bare {
                console.line(value)?;
            } else {
                console.line(format_args!("{property}={value}"))?;
            }
        }
    }
    Ok(Exit::Success)
}

/// What can be known of a unit that was never started: whether it is enabled.
fn file_state(
    installer: &mut Installer<'_, RealFs>,
    presets: &PresetRules,
    name: &UnitName,
) -> Runtime {
    let state = installer.state(name);
    let has_preset = state
        .is_some_and(|state| !matches!(state, UnitFileState::Generated | UnitFileState::Transient));
    let preset = matches!(presets.action(name), PresetAction::Enable { .. });
    Runtime {
        file_state: state,
        file_preset: has_preset.then_some(preset),
        ..Runtime::default()
    }
}
