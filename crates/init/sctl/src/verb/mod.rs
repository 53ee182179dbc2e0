//! The verbs, one module per family.

mod cat;
mod dependencies;
mod escape;
mod install;
mod list;
mod show;
mod time;
mod verify;

use thiserror::Error;

use crate::cli::Verb;
use crate::console::{Console, Exit, OutputClosed};
use crate::system::SystemError;

/// Why a verb cannot do what it was asked to.
#[derive(Debug, Error)]
pub(crate) enum VerbError {
    /// The answer cannot be printed; the console knows why.
    #[error(transparent)]
    Output(#[from] OutputClosed),
    /// `--root=` or a name.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Enabling, masking and the like.
    #[error(transparent)]
    Install(#[from] install::InstallVerbError),
    /// Lists of unit files.
    #[error(transparent)]
    List(#[from] list::ListError),
    /// Files of units.
    #[error(transparent)]
    Cat(#[from] cat::CatError),
    /// Properties.
    #[error(transparent)]
    Show(#[from] show::ShowError),
    /// Dependencies.
    #[error(transparent)]
    Dependencies(#[from] dependencies::DependenciesError),
    /// Checks.
    #[error(transparent)]
    Verify(#[from] verify::VerifyError),
    /// Calendar expressions and the like.
    #[error(transparent)]
    Time(#[from] time::TimeError),
    /// Escaping.
    #[error(transparent)]
    Escape(#[from] escape::EscapeVerbError),
}

/// Carries a verb out.
///
/// # Errors
/// What the user is to be told before a failed exit.
pub(crate) fn run(verb: &Verb, console: &mut Console) -> Result<Exit, VerbError> {
    match verb {
        Verb::ListUnitFiles(arguments) => list::list_unit_files(arguments, console),
        Verb::Enable(arguments) => install::enable(arguments, console),
        Verb::Disable(arguments) => install::disable(arguments, console),
        Verb::Reenable(arguments) => install::reenable(arguments, console),
        Verb::Preset(arguments) => install::preset(arguments, console),
        Verb::PresetAll(arguments) => install::preset_all(arguments, console),
        Verb::IsEnabled(arguments) => list::is_enabled(arguments, console),
        Verb::Mask(arguments) => install::mask(arguments, console),
        Verb::Unmask(arguments) => install::unmask(arguments, console),
        Verb::Link(arguments) => install::link(arguments, console),
        Verb::Revert(arguments) => install::revert(arguments, console),
        Verb::AddWants(arguments) => install::add_dependency(arguments, false, console),
        Verb::AddRequires(arguments) => install::add_dependency(arguments, true, console),
        Verb::GetDefault(arguments) => install::get_default(arguments, console),
        Verb::SetDefault(arguments) => install::set_default(arguments, console),
        Verb::Cat(arguments) => cat::cat(arguments, console),
        Verb::Show(arguments) => show::show(arguments, console),
        Verb::ListDependencies(arguments) => dependencies::list(arguments, console),
        Verb::Verify(arguments) => verify::verify(arguments, console),
        Verb::Calendar(arguments) => time::calendar(arguments, console),
        Verb::Timespan(arguments) => time::timespan(arguments, console),
        Verb::Timestamp(arguments) => time::timestamp(arguments, console),
        Verb::Escape(arguments) => escape::escape(arguments, console),
    }
}
