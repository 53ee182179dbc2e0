//! What commands fail with, and the exit codes for it.

use crate::console::{Exit, OutputClosed};
use crate::doctor::NotWellError;
use crate::image::ImageCommandError;
use crate::machine::MachineCommandError;
use crate::node::NodeCommandError;
use crate::pki::PkiCommandError;
use crate::sm::SmCommandError;
use crate::tools::ToolError;
use crate::unit::UnitCommandError;
use crate::up::UpCommandError;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Pki(#[from] PkiCommandError),
    #[error(transparent)]
    Node(#[from] NodeCommandError),
    #[error(transparent)]
    Image(#[from] ImageCommandError),
    #[error(transparent)]
    Sm(#[from] SmCommandError),
    #[error(transparent)]
    Unit(#[from] UnitCommandError),
    #[error(transparent)]
    Machine(#[from] MachineCommandError),
    #[error(transparent)]
    Up(#[from] UpCommandError),
    #[error(transparent)]
    Doctor(#[from] NotWellError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Output(#[from] OutputClosed),
}

impl CommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Pki(error) => error.exit(),
            Self::Node(error) => error.exit(),
            Self::Image(error) => error.exit(),
            Self::Sm(error) => error.exit(),
            Self::Unit(error) => error.exit(),
            Self::Machine(error) => error.exit(),
            Self::Up(error) => error.exit(),
            Self::Doctor(_) | Self::Tool(_) | Self::Output(_) => Exit::Failed,
        }
    }
}
