//! `cat`: the files of units.

use muster_control::manager::error;
use muster_unit_file::config::LoadState;
use muster_unit_file::fs::{FsError, RealFs, UnitFs};
use muster_unit_file::load::Loader;
use muster_unit_file::name::UnitName;
use thiserror::Error;

use super::{ActionError, VerbError};
use crate::cli::AskUnits;
use crate::console::{Console, Exit};
use crate::manager::Manager;
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

/// The files of a unit.
enum Files {
    Masked,
    Read(Vec<String>),
}

pub(super) fn cat(
    arguments: &AskUnits,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let running = !system.is_offline() && manager.is_there()?;
    let mut loader = system.loader();
    let names = system.units_by_pattern(&arguments.units, loader.index(), console)?;
    for (n, name) in names.into_iter().enumerate() {
        // A running manager may have units that are in no folder that everybody reads.
        let known = if running {
            of_manager(&name, manager)?
        } else {
            None
        };
        let files = match known.unwrap_or_else(|| of_folders(&name, &mut loader)) {
            Files::Masked => {
                let text = format!("# Unit {name} is masked.");
                console.line(console.coloured("35", &text))?;
                continue;
            }
            Files::Read(files) if files.is_empty() => return Err(CatError::NoFiles { name }.into()),
            Files::Read(files) => files,
        };
        if n > 0 {
            console.line("")?;
        }
        for (n, file) in files.iter().enumerate() {
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

/// What the manager read; `None` if it does not know the unit.
fn of_manager(name: &UnitName, manager: &mut Manager) -> Result<Option<Files>, VerbError> {
    if name.is_template() {
        return Ok(None);
    }
    let status = match manager.status(name.as_str()) {
        Ok(status) => status,
        Err(error) if error.is(error::NO_SUCH_UNIT) => return Ok(None),
        Err(source) => return Err(ActionError::new("get files of", name.as_str(), source).into()),
    };
    if status.row.load == "masked" {
        return Ok(Some(Files::Masked));
    }
    let mut files = status.drop_ins;
    if !status.fragment.is_empty() {
        files.insert(0, status.fragment);
    }
    Ok((!files.is_empty()).then_some(Files::Read(files)))
}

/// What the folders have.
fn of_folders(name: &UnitName, loader: &mut Loader<RealFs>) -> Files {
    // Only a template's instances can be loaded, but its files can be shown.
    let config = if name.is_template() {
        let instance = name.with_instance("instance").unwrap_or(name.clone());
        loader.load(&instance).config
    } else {
        loader.load(name).config
    };
    if config.load_state == LoadState::Masked {
        return Files::Masked;
    }
    let files = config.fragment.iter().chain(&config.drop_ins);
    Files::Read(files.map(ToString::to_string).collect())
}
