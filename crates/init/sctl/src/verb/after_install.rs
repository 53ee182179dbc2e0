//! What follows a change of links: the running manager reads them again, and `--now` starts or stops units.

use muster_unit_file::name::UnitType;

use super::{VerbError, jobs, machine};
use crate::cli::{Change, FileVerb, JobOptions};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::names;

/// Tells the running manager about what a verb changed. Without a manager there is nobody to tell.
pub(super) fn follow(
    verb: &FileVerb,
    exit: Exit,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let Some((change, units, job)) = followed(verb) else {
        return Ok(exit);
    };
    let other_root = change
        .common
        .root
        .as_deref()
        .is_some_and(|root| !root.is_empty());
    if exit != Exit::Success || other_root {
        return Ok(exit);
    }
    let there = manager.is_there();
    let Some(job) = job.filter(|_| change.now) else {
        // The links are made; a manager that cannot be told says nothing about that.
        if !change.no_reload && matches!(there, Ok(true)) {
            machine::reload(manager, console)?;
        }
        return Ok(exit);
    };
    there?;
    machine::reload(manager, console)?;
    let units: Vec<String> = units.iter().map(|unit| file_name(unit)).collect();
    let quiet = change.common.quiet;
    let names = names::expand(&units, UnitType::Service, quiet, manager, console)?;
    let options = JobOptions {
        lines: 10,
        quiet,
        ..JobOptions::default()
    };
    jobs::submit(job, &names, &options, manager, console)
}

/// A unit file given by its path is known by its name from then on.
fn file_name(text: &str) -> String {
    text.rsplit('/').next().unwrap_or(text).to_owned()
}

/// How the change was asked for, the units, and the job that `--now` means, if it means one.
fn followed(verb: &FileVerb) -> Option<(&Change, &[String], Option<&'static str>)> {
    Some(match verb {
        FileVerb::Enable(arguments) | FileVerb::Reenable(arguments) => {
            (&arguments.change, &arguments.units, Some("start"))
        }
        FileVerb::Disable(arguments) | FileVerb::Mask(arguments) => {
            (&arguments.change, &arguments.units, Some("stop"))
        }
        FileVerb::Unmask(arguments) | FileVerb::Revert(arguments) => {
            (&arguments.change, &arguments.units, None)
        }
        FileVerb::Preset(arguments) => (&arguments.units.change, &arguments.units.units, None),
        FileVerb::PresetAll(arguments) => (&arguments.change, &[], None),
        FileVerb::Link(arguments) => (&arguments.change, &arguments.files, None),
        FileVerb::AddWants(arguments) | FileVerb::AddRequires(arguments) => {
            (&arguments.change, &arguments.units, None)
        }
        FileVerb::SetDefault(arguments) => (&arguments.change, &[], None),
        _ => return None,
    })
}
