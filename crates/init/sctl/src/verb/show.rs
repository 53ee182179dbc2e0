//! `show`: properties of units, from the running manager, or from files where there is none.

use muster_control::manager::ShowCall;
use muster_unit_file::fs::RealFs;
use muster_unit_file::install::{Installer, PresetAction, PresetRules, UnitFileState};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::closure::Closure;
use muster_units::show::Show as Options;
use muster_units::{Graph, Runtime};
use thiserror::Error;

use super::{ActionError, VerbError, lists};
use crate::cli::{Format, Show};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::names;
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
    /// Without a manager there are only units.
    #[error("Failed to get properties: name a unit, for there is no running manager to show.")]
    NoManager,
}

pub(super) fn show(
    arguments: &Show,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let offline = arguments
        .common
        .root
        .as_deref()
        .is_some_and(|root| !root.is_empty());
    if !offline && manager.is_there()? {
        return show_running(arguments, manager, console);
    }
    if arguments.units.is_empty() {
        return Err(ShowError::NoManager.into());
    }
    show_files(arguments, console)
}

/// The properties that are asked for, in no order; empty for all.
fn wanted(arguments: &Show) -> Vec<&str> {
    let names = arguments
        .properties
        .iter()
        .chain(&arguments.value_properties);
    names.map(String::as_str).collect()
}

fn show_running(
    arguments: &Show,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let wanted = wanted(arguments);
    let units = if arguments.units.is_empty() {
        vec![String::new()]
    } else {
        let quiet = arguments.common.quiet;
        names::expand(&arguments.units, UnitType::Service, quiet, manager, console)?
    };
    for (n, unit) in units.into_iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        let call = ShowCall {
            unit: unit.clone(),
            properties: wanted.iter().map(|name| (*name).to_owned()).collect(),
            all: arguments.all || !wanted.is_empty(),
        };
        let properties = manager
            .show(&call)
            .map_err(|source| ActionError::new("get properties of", unit, source))?;
        let properties = properties.iter();
        print(
            arguments,
            properties.map(|(name, value)| (name.as_str(), value.as_str())),
            console,
        )?;
    }
    Ok(Exit::Success)
}

fn print<'a>(
    arguments: &Show,
    properties: impl Iterator<Item = (&'a str, &'a str)>,
    console: &mut Console,
) -> Result<(), VerbError> {
    if arguments.output != Format::Short {
        let object: serde_json::Map<String, serde_json::Value> = properties
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        return lists::print_json(&object, arguments.output, console);
    }
    let bare = arguments.value || !arguments.value_properties.is_empty();
    for (property, value) in properties {
        if bare {
            console.line(value)?;
        } else {
            console.line(format_args!("{property}={value}"))?;
        }
    }
    Ok(())
}

fn show_files(arguments: &Show, console: &mut Console) -> Result<Exit, VerbError> {
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
    let wanted = wanted(arguments);
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
        let shown = muster_units::show::show(unit, options);
        let shown = shown.iter().map(|(name, value)| (*name, value.as_str()));
        let shown = shown.filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
        print(arguments, shown, console)?;
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
