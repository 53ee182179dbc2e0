//! Why a verb cannot do what it was asked to.

use thiserror::Error;

use super::{
    analyze, cat, dependencies, edit, escape, install, list, logs, machine, manage, run, security,
    show, time, tools, verify,
};
use crate::console::{Exit, OutputClosed};
use crate::manager::ManagerError;
use crate::names::{ExpandError, NameError};
use crate::system::SystemError;

/// A request about one object that the manager did not carry out.
#[derive(Debug, Error)]
#[error("Failed to {action} {unit}")]
pub(crate) struct ActionError {
    action: String,
    unit: String,
    #[source]
    source: ManagerError,
}

impl ActionError {
    /// What was to be done to what, and why it was not.
    pub(crate) fn new(
        action: impl Into<String>,
        unit: impl Into<String>,
        source: ManagerError,
    ) -> Self {
        Self {
            action: action.into(),
            unit: unit.into(),
            source,
        }
    }

    /// What it is about.
    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    /// The exit code, as `systemctl` has it.
    pub(crate) fn exit(&self) -> Exit {
        self.source.exit()
    }
}

/// Why a verb cannot do what it was asked to.
#[derive(Debug, Error)]
pub(crate) enum VerbError {
    /// The answer cannot be printed; the console knows why.
    #[error(transparent)]
    Output(#[from] OutputClosed),
    /// `--root=` or a name.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Names and patterns.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The manager, asked about a unit.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// The manager, asked about itself.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// A verb that works on files, and `--host`.
    #[error(
        "Option --host is for verbs that ask the running manager; this one works on the files of {host}: run sctl there."
    )]
    FilesElsewhere {
        /// The machine.
        host: String,
    },
    /// `status PID`
    #[error("Process {pid} does not belong to a unit.")]
    NoUnitOfProcess {
        /// Which.
        pid: String,
    },
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
    /// What services can do.
    #[error(transparent)]
    Security(#[from] security::SecurityError),
    /// Calendar expressions and the like.
    #[error(transparent)]
    Time(#[from] time::TimeError),
    /// Escaping.
    #[error(transparent)]
    Escape(#[from] escape::EscapeVerbError),
    /// Signals, cleaning, settings.
    #[error(transparent)]
    Manage(#[from] manage::ManageError),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] machine::MachineError),
    /// Transient units.
    #[error(transparent)]
    Run(#[from] run::RunError),
    /// The log.
    #[error(transparent)]
    Logs(#[from] logs::LogsError),
    /// Editing.
    #[error(transparent)]
    Edit(#[from] edit::EditError),
    /// Where time went.
    #[error(transparent)]
    Analyze(#[from] analyze::AnalyzeError),
    /// `sctl` itself.
    #[error(transparent)]
    Tool(#[from] tools::ToolError),
}

impl VerbError {
    /// The exit code of a command that ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Action(error) => error.exit(),
            Self::Manager(error) => error.exit(),
            _ => Exit::Failure,
        }
    }
}
