//! `list-unit-files` and `is-enabled`.

use muster_unit_file::install::{PresetAction, PresetRules, UnitFileState, glob};
use muster_unit_file::name::{UnitName, UnitType};
use serde::Serialize;
use thiserror::Error;

use super::VerbError;
use crate::cli::{AskUnits, Format, ListUnitFiles};
use crate::console::{Console, Exit};
use crate::render::file_state_colour;
use crate::system::System;

/// Why there is no list.
#[derive(Debug, Error)]
pub(crate) enum ListError {
    /// `--type=`
    #[error(
        "Unknown unit type or load state '{text}'.\nUse -t help to see a list of allowed values."
    )]
    UnknownType {
        /// What was given.
        text: String,
    },
    /// `--legend=`
    #[error("Failed to parse boolean argument to --legend: {text}.")]
    Legend {
        /// What was given.
        text: String,
    },
}

/// One line of the list.
struct Row {
    name: UnitName,
    state: UnitFileState,
    /// `None` where no preset applies.
    preset: Option<&'static str>,
}

/// The same for programs; the order of the fields is `systemctl`'s.
#[derive(Serialize)]
struct JsonRow<'a> {
    unit_file: &'a str,
    state: &'static str,
    preset: Option<&'static str>,
}

impl<'a> From<&'a Row> for JsonRow<'a> {
    fn from(row: &'a Row) -> Self {
        Self {
            unit_file: row.name.as_str(),
            state: row.state.as_str(),
            preset: row.preset,
        }
    }
}

pub(super) fn list_unit_files(
    arguments: &ListUnitFiles,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if arguments.types.iter().any(|word| word == "help") {
        console.line("Available unit types:")?;
        for kind in UnitType::ALL {
            console.line(kind)?;
        }
        return Ok(Exit::Success);
    }
    if arguments.states.iter().any(|word| word == "help") {
        console.line("Available unit file states:")?;
        for state in UnitFileState::WORDS.split(", ") {
            console.line(state)?;
        }
        return Ok(Exit::Success);
    }
    let types = arguments
        .types
        .iter()
        .map(|text| {
            UnitType::from_suffix(text).ok_or_else(|| ListError::UnknownType { text: text.clone() })
        })
        .collect::<Result<Vec<UnitType>, ListError>>()?;
    let legend = match arguments.legend.as_deref() {
        None => !arguments.no_legend && !arguments.common.quiet,
        Some("1" | "yes" | "y" | "true" | "t" | "on") => true,
        Some("0" | "no" | "n" | "false" | "f" | "off") => false,
        Some(text) => {
            return Err(ListError::Legend {
                text: text.to_owned(),
            }
            .into());
        }
    };
    let system = System::open(&arguments.common)?;
    let mut installer = system.installer();
    let presets = installer.presets();
    let rows: Vec<Row> = installer
        .list()
        .into_iter()
        .filter(|(name, _)| types.is_empty() || types.contains(&name.unit_type()))
        .filter(|(name, _)| fits_one(name, &arguments.patterns))
        .filter(|(_, state)| {
            arguments.states.is_empty() || arguments.states.iter().any(|s| s == state.as_str())
        })
        .map(|(name, state)| Row {
            preset: preset(&presets, &name, state),
            name,
            state,
        })
        .collect();
    // A search that finds nothing has failed, as for grep.
    let exit = if rows.is_empty() {
        Exit::Failure
    } else {
        Exit::Success
    };
    print(sorted(rows), arguments.output, legend, console)?;
    Ok(exit)
}

fn fits_one(name: &UnitName, patterns: &[String]) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, name.as_str()))
}

/// By type, then by name without regard to case, as `systemctl` sorts.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_cached_key(|row| {
        let name = row.name.as_str().to_ascii_lowercase();
        (row.name.unit_type().as_str(), name)
    });
    rows
}

/// What the presets say, for states in which that is a sensible question.
fn preset(rules: &PresetRules, name: &UnitName, state: UnitFileState) -> Option<&'static str> {
    use UnitFileState as State;
    let none = matches!(
        state,
        State::Alias | State::Static | State::Generated | State::Transient
    );
    if none {
        return None;
    }
    Some(match rules.action(name) {
        PresetAction::Enable { .. } => "enabled",
        PresetAction::Disable => "disabled",
    })
}

fn print(
    rows: Vec<Row>,
    format: Format,
    legend: bool,
    console: &mut Console,
) -> Result<(), VerbError> {
    if format != Format::Short {
        let list: Vec<JsonRow<'_>> = rows.iter().map(JsonRow::from).collect();
        let text = if format == Format::JsonPretty {
            serde_json::to_string_pretty(&list)
        } else {
            serde_json::to_string(&list)
        };
        let text = text.expect("rows of plain texts have a JSON form");
        return Ok(console.line(text)?);
    }
    let head = legend.then_some(("UNIT FILE", "STATE", "PRESET"));
    let cells = rows.iter().map(|row| {
        (
            row.name.as_str(),
            row.state.as_str(),
            row.preset.unwrap_or("-"),
        )
    });
    let all = || head.into_iter().chain(cells.clone());
    let name_width = all().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let state_width = all().map(|(_, state, _)| state.len()).max().unwrap_or(0);
    let preset_width = all().map(|(.., preset)| preset.len()).max().unwrap_or(0);
    if let Some((name, state, preset)) = head {
        let line = format!("{name:<name_width$} {state:<state_width$} {preset:<preset_width$}");
        // Only a terminal shows the head line as a line of its own kind.
        let line = if console.colour() {
            line
        } else {
            line.trim_end().to_owned()
        };
        console.line(console.coloured("4", &line))?;
    }
    for (name, state, preset) in cells {
        let shown = format!("{state:<state_width$}");
        let state = console.coloured(file_state_colour(state), &shown);
        let preset = console.coloured(file_state_colour(preset), preset);
        console.line(format_args!("{name:<name_width$} {state} {preset}"))?;
    }
    if legend {
        console.line(format_args!("\n{} unit files listed.", rows.len()))?;
    }
    Ok(())
}

pub(super) fn is_enabled(arguments: &AskUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let units = system.plain_units(&arguments.units, "check", console)?;
    let mut installer = system.installer();
    let states: Vec<Option<UnitFileState>> =
        units.iter().map(|name| installer.state(name)).collect();
    if !system.quiet() {
        for state in &states {
            console.line(state.map_or("not-found", UnitFileState::as_str))?;
        }
    }
    let known = || states.iter().flatten();
    Ok(if known().any(|state| state.is_success()) {
        Exit::Success
    } else if known().next().is_some() {
        Exit::Failure
    } else {
        Exit::UnknownUnit
    })
}
