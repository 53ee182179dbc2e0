//! The verbs, one module per family.

mod after_install;
mod analyze;
mod ask;
mod cat;
mod dependencies;
mod edit;
mod error;
mod escape;
mod install;
mod jobs;
mod list;
mod lists;
mod log_tail;
mod logs;
mod machine;
mod manage;
mod run;
mod security;
mod show;
mod status;
mod time;
mod tools;
mod verify;
mod why;

pub(crate) use error::{ActionError, VerbError};

use crate::cli::{Cli, FileVerb, ToolVerb, UnitVerb, Verb};
use crate::console::{Console, Exit};
use crate::manager::Manager;

/// Carries a command out.
///
/// # Errors
/// What the user is to be told before a failed exit.
pub(crate) fn run(cli: &Cli, console: &mut Console) -> Result<Exit, VerbError> {
    let mut manager = Manager::new(&cli.global);
    let manager = &mut manager;
    match &cli.verb {
        Verb::Job(verb) => jobs::run(verb, manager, console),
        Verb::Unit(verb) => unit(verb, manager, console),
        Verb::Logs(arguments) => logs::logs(arguments, manager, console),
        Verb::Run(arguments) => run::run(arguments, manager, console),
        Verb::Machine(verb) => machine::run(verb, manager, console),
        Verb::Analyze(arguments) => analyze::analyze(arguments, manager, console),
        Verb::Tool(ToolVerb::Completions(arguments)) => {
            tools::completions(arguments.shell, console)
        }
        Verb::Tool(ToolVerb::Man(arguments)) => tools::man(arguments.folder.as_deref(), console),
        Verb::Tool(ToolVerb::StdioBridge) => tools::bridge(&cli.global),
        Verb::Tool(ToolVerb::Edit(arguments)) => {
            refuse_host(manager)?;
            edit::edit(arguments, manager, console)
        }
        Verb::File(verb) => {
            refuse_host(manager)?;
            let exit = file(verb, manager, console)?;
            after_install::follow(verb, exit, manager, console)
        }
    }
}

/// Files of another machine cannot be reached through its manager.
fn refuse_host(manager: &Manager) -> Result<(), VerbError> {
    match manager.host() {
        None => Ok(()),
        Some(host) => Err(VerbError::FilesElsewhere {
            host: host.to_owned(),
        }),
    }
}

fn unit(verb: &UnitVerb, manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    match verb {
        UnitVerb::Status(arguments) => status::status(arguments, manager, console),
        UnitVerb::Show(arguments) => show::show(arguments, manager, console),
        UnitVerb::Why(arguments) => why::why(arguments, manager, console),
        UnitVerb::IsActive(arguments) => {
            let good = ["active", "reloading"];
            ask::is_in_state(arguments, &good, Exit::NotRunning, manager, console)
        }
        UnitVerb::IsFailed(arguments) => {
            ask::is_in_state(arguments, &["failed"], Exit::Failure, manager, console)
        }
        UnitVerb::ListUnits(arguments) => lists::units(arguments, manager, console),
        UnitVerb::ListSockets(list) => lists::sockets(list, manager, console),
        UnitVerb::ListTimers(list) => lists::timers(list, manager, console),
        UnitVerb::ListPaths(list) => lists::paths(list, manager, console),
        UnitVerb::ListJobs(arguments) => lists::jobs(arguments, manager, console),
        UnitVerb::Cancel(arguments) => lists::cancel(&arguments.jobs, manager, console),
        UnitVerb::Kill(arguments) => manage::kill(arguments, manager, console),
        UnitVerb::Freeze(arguments) => manage::freeze(arguments, true, manager, console),
        UnitVerb::Thaw(arguments) => manage::freeze(arguments, false, manager, console),
        UnitVerb::Clean(arguments) => manage::clean(arguments, manager, console),
        UnitVerb::ResetFailed(arguments) => manage::reset_failed(arguments, manager, console),
        UnitVerb::SetProperty(arguments) => manage::set_property(arguments, manager, console),
    }
}

fn file(verb: &FileVerb, manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    match verb {
        FileVerb::ListUnitFiles(arguments) => list::list_unit_files(arguments, console),
        FileVerb::Enable(arguments) => install::enable(arguments, console),
        FileVerb::Disable(arguments) => install::disable(arguments, console),
        FileVerb::Reenable(arguments) => install::reenable(arguments, console),
        FileVerb::Preset(arguments) => install::preset(arguments, console),
        FileVerb::PresetAll(arguments) => install::preset_all(arguments, console),
        FileVerb::IsEnabled(arguments) => list::is_enabled(arguments, console),
        FileVerb::Mask(arguments) => install::mask(arguments, console),
        FileVerb::Unmask(arguments) => install::unmask(arguments, console),
        FileVerb::Link(arguments) => install::link(arguments, console),
        FileVerb::Revert(arguments) => install::revert(arguments, console),
        FileVerb::AddWants(arguments) => install::add_dependency(arguments, false, console),
        FileVerb::AddRequires(arguments) => install::add_dependency(arguments, true, console),
        FileVerb::GetDefault(arguments) => install::get_default(arguments, console),
        FileVerb::SetDefault(arguments) => install::set_default(arguments, console),
        FileVerb::Cat(arguments) => cat::cat(arguments, manager, console),
        FileVerb::ListDependencies(arguments) => dependencies::list(arguments, console),
        FileVerb::Verify(arguments) => verify::verify(arguments, console),
        FileVerb::Security(arguments) => security::security(arguments, manager, console),
        FileVerb::Calendar(arguments) => time::calendar(arguments, console),
        FileVerb::Timespan(arguments) => time::timespan(arguments, console),
        FileVerb::Timestamp(arguments) => time::timestamp(arguments, console),
        FileVerb::Escape(arguments) => escape::escape(arguments, console),
    }
}
