//! `completions` and `man`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::console::Console;
use crate::error::CommandError;

/// Why something about `muster` itself cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("cannot write manual pages to {}", folder.display())]
    Man {
        folder: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

pub(crate) fn completions(shell: Shell, console: &mut Console) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "muster", &mut text);
    console.print(&String::from_utf8_lossy(&text))?;
    Ok(())
}

pub(crate) fn man(folder: Option<&Path>, console: &mut Console) -> Result<(), CommandError> {
    let command = Cli::command();
    let Some(folder) = folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut text)
            .expect("writing into memory does not fail");
        console.print(&String::from_utf8_lossy(&text))?;
        return Ok(());
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|source| ToolError::Man {
            folder: folder.to_owned(),
            source,
        })?;
    Ok(())
}
