//! `MakeDirectory=`.

use muster_unit_file::config::{PathConfig, PathKind};
use rustix::io::Errno;
use thiserror::Error;

use crate::folders;

/// A folder that `MakeDirectory=` asks for and that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot make the directory {path}")]
pub struct MakeDirectoryError {
    /// The directory.
    pub path: Box<str>,
    /// Why.
    #[source]
    pub source: Errno,
}

/// Makes the directories that a path unit is to watch. Paths whose existence is waited for are left alone.
pub fn make_directories(config: &PathConfig) -> Vec<MakeDirectoryError> {
    let wanted = config
        .paths
        .iter()
        .filter(|spec| !matches!(spec.kind, PathKind::Exists | PathKind::ExistsGlob));
    wanted
        .filter_map(|spec| {
            let made = folders::make_all(&spec.path, config.directory_mode.0);
            made.err().map(|source| MakeDirectoryError {
                path: spec.path.clone(),
                source,
            })
        })
        .collect()
}
