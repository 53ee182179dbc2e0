//! `analyze`: where the time of the start went, dependencies as a graph, and the checks of `systemd-analyze`.
//!
//! [`times`] says when units came up and how long that took; everything else here is drawn from that and from the
//! dependencies that the manager shows.

mod chain;
mod dot;
mod plot;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;

use muster_control::manager::{ListUnitsCall, MachineStatus, ShowCall};
use muster_unit_file::name::UnitType;
use muster_unit_file::timespan::{TimeSpan, TimeSpanError};
use serde::Serialize;
use thiserror::Error;

use super::{ActionError, VerbError, lists, security, time, verify};
use crate::cli::{Analyze, AnalyzeVerb, CriticalChain, Dot, Format};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::names;
use crate::render::time::span;
use times::{Times, UnitTimes};

/// Why there is nothing to see.
#[derive(Debug, Error)]
pub(crate) enum AnalyzeError {
    /// The machine is not up yet.
    #[error(
        "The start of the machine has not ended yet (state: {state}). See 'sctl list-jobs' for what it waits for."
    )]
    NotUp {
        /// In which state it is.
        state: String,
    },
    /// `--fuzz=`
    #[error("Failed to parse time span '{text}'")]
    Fuzz {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: TimeSpanError,
    },
}

pub(super) fn analyze(
    arguments: &Analyze,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    match arguments.verb.as_ref().unwrap_or(&AnalyzeVerb::Time) {
        AnalyzeVerb::Time => {
            let machine = started(manager)?;
            let target = target_time(&machine, manager)?;
            console.print(&times::sentence(&machine, target))?;
            Ok(Exit::Success)
        }
        AnalyzeVerb::Blame(arguments) => blame(arguments.output, manager, console),
        AnalyzeVerb::CriticalChain(arguments) => critical_chain(arguments, manager, console),
        AnalyzeVerb::Plot => {
            let machine = manager.machine()?;
            let units = unit_times(manager)?;
            let host = rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned();
            console.print(&plot::svg(&machine, &units, &host))?;
            Ok(Exit::Success)
        }
        AnalyzeVerb::Dot(arguments) => draw(arguments, manager, console),
        AnalyzeVerb::Verify(arguments) => verify::verify(arguments, console),
        AnalyzeVerb::Security(arguments) => {
            super::refuse_host(manager)?;
            security::security(arguments, manager, console)
        }
        AnalyzeVerb::Calendar(arguments) => time::calendar(arguments, console),
        AnalyzeVerb::Timespan(arguments) => time::timespan(arguments, console),
        AnalyzeVerb::Timestamp(arguments) => time::timestamp(arguments, console),
    }
}

/// The machine, if its start has ended.
fn started(manager: &mut Manager) -> Result<MachineStatus, VerbError> {
    let machine = manager.machine()?;
    if machine.finish.monotonic == 0 {
        return Err(AnalyzeError::NotUp {
            state: machine.state,
        }
        .into());
    }
    Ok(machine)
}

/// When units came up.
fn unit_times(manager: &mut Manager) -> Result<Vec<UnitTimes>, VerbError> {
    let call = ListUnitsCall {
        all: true,
        ..ListUnitsCall::default()
    };
    let rows = manager.list(&call)?;
    Ok(rows.iter().map(UnitTimes::of).collect())
}

/// When the default target came up.
fn target_time(
    machine: &MachineStatus,
    manager: &mut Manager,
) -> Result<Option<(String, u64)>, VerbError> {
    if machine.default_target.is_empty() {
        return Ok(None);
    }
    let call = ListUnitsCall {
        patterns: vec![machine.default_target.clone()],
        all: true,
        ..ListUnitsCall::default()
    };
    let rows = manager.list(&call)?;
    let up = rows.into_iter().find(|row| row.active_enter.monotonic > 0);
    Ok(up.map(|row| (row.name, row.active_enter.monotonic)))
}

fn blame(format: Format, manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    #[derive(Serialize)]
    struct Row<'a> {
        unit: &'a str,
        microseconds: u64,
    }
    started(manager)?;
    let mut units: Vec<UnitTimes> = unit_times(manager)?;
    units.retain(|unit| unit.took() > 0);
    units.sort_by(|a, b| b.took().cmp(&a.took()).then_with(|| a.name.cmp(&b.name)));
    if format != Format::Short {
        let rows: Vec<Row<'_>> = units
            .iter()
            .map(|unit| Row {
                unit: &unit.name,
                microseconds: unit.took(),
            })
            .collect();
        lists::print_json(&rows, format, console)?;
        return Ok(Exit::Success);
    }
    let width = units.iter().map(|unit| span(unit.took()).len()).max();
    let width = width.unwrap_or_default();
    for unit in &units {
        let took = format!("{:>width$}", span(unit.took()));
        console.line(format_args!(
            "{} {}",
            console.coloured("31", &took),
            unit.name
        ))?;
    }
    Ok(Exit::Success)
}

/// Some properties of a unit that are lists of units.
fn relations(
    unit: &str,
    properties: &[&str],
    manager: &mut Manager,
) -> Result<BTreeMap<String, Vec<String>>, VerbError> {
    let call = ShowCall {
        unit: unit.to_owned(),
        properties: properties.iter().map(|name| (*name).to_owned()).collect(),
        all: true,
    };
    let shown = manager
        .show(&call)
        .map_err(|source| ActionError::new("get properties of", unit, source))?;
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    Ok(shown
        .into_iter()
        .map(|(name, value)| (name, words(value)))
        .collect())
}

fn critical_chain(
    arguments: &CriticalChain,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let fuzz = TimeSpan::parse(&arguments.fuzz).map_err(|source| AnalyzeError::Fuzz {
        text: arguments.fuzz.clone(),
        source,
    })?;
    let machine = started(manager)?;
    let times = Times::new(&machine, unit_times(manager)?);
    let roots = if arguments.units.is_empty() {
        vec![machine.default_target.clone()]
    } else {
        names::expand(&arguments.units, UnitType::Service, false, manager, console)?
    };
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut after = |unit: &str| -> Result<Vec<String>, VerbError> {
        if let Some(units) = known.get(unit) {
            return Ok(units.clone());
        }
        let units = relations(unit, &["After"], manager)?
            .remove("After")
            .unwrap_or_default();
        known.insert(unit.to_owned(), units.clone());
        Ok(units)
    };
    console
        .line("After \"@\": when the unit was up. After \"+\": how long it took to come up.\n")?;
    for root in &roots {
        let lines = chain::lines(root, &times, fuzz.as_micros(), &mut after)?;
        for line in lines {
            let text = line.text(|took| console.coloured("31", took));
            console.line(text)?;
        }
    }
    Ok(Exit::Success)
}

fn draw(arguments: &Dot, manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    let call = ListUnitsCall {
        all: true,
        ..ListUnitsCall::default()
    };
    let kinds = dot::kinds(arguments);
    let properties: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
    let mut edges = Vec::new();
    for row in manager.list(&call)? {
        let relations = relations(&row.name, &properties, manager)?;
        for (kind, colour) in kinds {
            for other in relations.get(*kind).into_iter().flatten() {
                edges.push(dot::Edge {
                    from: row.name.clone(),
                    to: other.clone(),
                    colour,
                });
            }
        }
    }
    console.print(&dot::graph(&edges, arguments))?;
    Ok(Exit::Success)
}
