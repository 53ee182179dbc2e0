//! Verbs that change files with the help of an editor, and verbs about `sctl` itself.

use clap::{Args, Subcommand};
use clap_complete::Shell;

/// Files to edit.
#[derive(Debug, Clone, Args)]
pub(crate) struct Edit {
    /// The whole file instead of a drop-in.
    #[arg(long)]
    pub(crate) full: bool,
    /// Until the next start of the machine only.
    #[arg(long)]
    pub(crate) runtime: bool,
    /// The name of the drop-in.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "override.conf",
        conflicts_with = "full"
    )]
    pub(crate) drop_in: String,
    /// Take the new text from standard input instead of an editor.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Make a unit that is not there yet.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Do not have the running manager read unit files again.
    #[arg(long)]
    pub(crate) no_reload: bool,
    /// Names of units.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Manual pages.
#[derive(Debug, Clone, Args)]
pub(crate) struct Man {
    /// The folder to write them into; the main page goes to standard output if there is none.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<std::path::PathBuf>,
}

/// Completions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Completions {
    /// For which shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Editing, and `sctl` itself.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ToolVerb {
    /// Change the files of units with an editor; they are checked before they are saved
    Edit(Edit),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages
    Man(Man),
    /// Join standard input and output with the control socket
    #[command(hide = true)]
    StdioBridge,
}
