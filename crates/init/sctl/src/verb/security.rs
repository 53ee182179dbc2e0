//! `security`: what services can do, and which of the protections that they ask for they could not have here.

use muster_unit_file::config::LoadState;
use muster_unit_file::diagnostic::Problem;
use muster_unit_file::fs::RealFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::security::assess;
use thiserror::Error;

use super::{ActionError, VerbError, lists, verify};
use crate::cli::{Format, Security};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::render::{self, Lacking, SecurityView};
use crate::system::System;

/// Why a unit is not assessed.
#[derive(Debug, Error)]
pub(crate) enum SecurityError {
    /// It has no usable file.
    #[error("Failed to assess {unit}: it is {}.", state.as_str())]
    NotLoaded {
        /// Which.
        unit: UnitName,
        /// In which state it is.
        state: LoadState,
    },
    /// Only services run programs that are exposed.
    #[error("Failed to assess {unit}: it is not a service.")]
    NotService {
        /// Which.
        unit: UnitName,
    },
}

pub(super) fn security(
    arguments: &Security,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let (paths, names): (Vec<String>, Vec<String>) = arguments
        .units
        .iter()
        .cloned()
        .partition(|text| text.contains('/'));
    let (mut units, folders) = verify::named(&paths, &system)?;
    let system_path = SearchPath::system();
    let path = SearchPath::new(folders.iter().map(String::as_str).chain(system_path.iter()));
    let mut loader = system.loader_with(path);
    let everything = arguments.units.is_empty();
    if everything {
        let all = loader.index().names();
        let services = all.filter(|name| name.unit_type() == UnitType::Service);
        units.extend(services.filter(|name| !name.is_template()).cloned());
    } else {
        units.extend(system.units_by_pattern(&names, loader.index(), console)?);
    }
    let mut exit = Exit::Success;
    let mut views: Vec<SecurityView> = Vec::new();
    for name in units {
        match view(&mut loader, name) {
            // What two names mean is assessed once.
            Ok(view) if views.iter().any(|known| known.unit == view.unit) => {}
            Ok(view) => views.push(view),
            // Who did not ask for a unit does not care that it is masked.
            Err(_) if everything => {}
            Err(error) => exit = console.report(&error.into()),
        }
    }
    if !system.is_offline() && manager.is_there()? {
        for view in &mut views {
            match manager.status(&view.unit) {
                Ok(status) => view.lacking = Some(Lacking::of(status)),
                // It came or went meanwhile.
                Err(_) if everything => {}
                Err(source) => {
                    let error = ActionError::new("get status of", &view.unit, source);
                    exit = console.report(&error.into());
                }
            }
        }
    }
    if arguments.is_exceeded_by(views.iter().map(|view| view.assessment.exposure.tenths())) {
        exit = Exit::Failure;
    }
    if everything {
        // What is exposed most first.
        views.sort_by_key(|view| std::cmp::Reverse(view.assessment.exposure));
    }
    match arguments.format() {
        Format::Short if everything => {
            console.print(&render::exposures(&views, console.style()))?;
        }
        Format::Short => {
            let texts: Vec<String> = views
                .iter()
                .map(|view| render::security(view, console.style()))
                .collect();
            console.print(&texts.join("\n"))?;
        }
        format if everything => {
            let rows: Vec<_> = views.iter().map(SecurityView::row).collect();
            lists::print_json(&rows, format, console)?;
        }
        format => lists::print_json(&views, format, console)?,
    }
    Ok(exit)
}

/// A unit by its main name.
fn view(loader: &mut Loader<RealFs>, name: UnitName) -> Result<SecurityView, SecurityError> {
    let name = match name.is_template() {
        true => name.with_instance(verify::INSTANCE).unwrap_or(name),
        false => name,
    };
    if name.unit_type() != UnitType::Service {
        return Err(SecurityError::NotService { unit: name });
    }
    let loaded = loader.load(&name);
    let config = loaded.config;
    let named = |problems: &[Problem]| {
        let found = loaded.diagnostics.iter();
        let found = found.filter(|one| problems.contains(&one.problem));
        found.map(ToString::to_string).collect()
    };
    match config.load_state {
        LoadState::Loaded => Ok(SecurityView {
            unit: config.name.to_string(),
            assessment: assess(&config),
            ignored: named(&[Problem::BadValue]),
            // A protection with a name that nobody knows is none, in whichever section it stands.
            unknown: named(&[Problem::UnknownDirective, Problem::UnknownSection]),
            lacking: None,
        }),
        state => Err(SecurityError::NotLoaded { unit: name, state }),
    }
}
