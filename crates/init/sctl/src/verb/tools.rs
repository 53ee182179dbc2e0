//! `completions`, `man` and the hidden `stdio-bridge`.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use thiserror::Error;

use super::VerbError;
use crate::cli::{Cli, Global};
use crate::console::{Console, Exit};
use crate::manager;

/// Why something about `sctl` itself cannot be written.
#[derive(Debug, Error)]
pub(crate) enum ToolError {
    /// A manual page.
    #[error("Failed to write manual pages to '{}'", folder.display())]
    Man {
        /// Where to.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The bridge to the control socket broke.
    #[error(transparent)]
    Bridge(#[from] manager::Bridge),
}

pub(super) fn completions(shell: Shell, console: &mut Console) -> Result<Exit, VerbError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sctl", &mut text);
    console.bytes(&text)?;
    Ok(Exit::Success)
}

pub(super) fn man(folder: Option<&Path>, console: &mut Console) -> Result<Exit, VerbError> {
    let command = Cli::command();
    let Some(folder) = folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut text)
            .expect("writing into memory does not fail");
        console.bytes(&text)?;
        return Ok(Exit::Success);
    };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|source| ToolError::Man {
        folder: folder.to_owned(),
        source,
    })?;
    Ok(Exit::Success)
}

pub(super) fn bridge(global: &Global) -> Result<Exit, VerbError> {
    let path = muster_control::socket_path(global.socket.clone());
    manager::bridge(&path).map_err(ToolError::from)?;
    Ok(Exit::Success)
}
