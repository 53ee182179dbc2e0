//! `cat`: the files of units.

use muster_unit_file::config::LoadState;
use muster_unit_file::fs::{FsError, UnitFs};
use muster_unit_file::name::UnitName;
use thiserror::Error;

use super::VerbError;
use crate::cli::AskUnits;
use crate::console::{Console, Exit};
use crate::system::System;

/// Why files are not printed.
#[derive(Debug, Error)]
pub(crate) enum CatError {
    /// There are none.
    #[error("No files found for {name}.")]
    NoFiles {
        /// Of which unit.
        name: UnitName,
    },
    /// One cannot be read.
    #[error("Failed to cat {path}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: FsError,
    },
}

pub(super) fn cat(arguments: &AskUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let mut loader = system.loader();
    let names = system.units_by_pattern(&arguments.units, loader.index(), console)?;
    for (n, name) in names.into_iter().enumerate() {
        // Only a template's instances can be loaded, but its files can be shown.
        let config = if name.is_template() {
            let instance = name.with_instance("instance").unwrap_or(name.clone());
            loader.load(&instance).config
        } else {
            loader.load(&name).config
        };
        if config.load_state == LoadState::Masked {
            let text = format!("# Unit {name} is masked.");
            console.line(console.coloured("35", &text))?;
            continue;
        }
        if config.fragment.is_none() && config.drop_ins.is_empty() {
            return Err(CatError::NoFiles { name }.into());
        }
        if n > 0 {
            console.line("")?;
        }
        for (n, file) in config.fragment.iter().chain(&config.drop_ins).enumerate() {
            if n > 0 {
                console.line("")?;
            }
            let head = format!("# {}", system.outside(file));
            console.line(console.coloured("34", &head))?;
            let content = loader.fs().read(file).map_err(|source| CatError::Read {
                path: system.outside(file),
                source,
            })?;
            console.print(&String::from_utf8_lossy(&content))?;
        }
    }
    Ok(Exit::Success)
}
