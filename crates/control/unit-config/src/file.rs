//! The file with the document in force.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_durable::{Step, write_in_steps};
use muster_fault::hit;

use crate::fault::STAGED;

/// The file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the unit configuration {}", path.display())]
pub struct KeepFileError {
    /// `read` or `write`.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// What is in the file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, KeepFileError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeepFileError {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Replaces the file, whole.
pub(crate) fn write(path: &Path, document: &[u8]) -> Result<(), KeepFileError> {
    let replace = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_in_steps(path, document, 0o640, |step| {
            if step == Step::Written {
                hit(STAGED);
            }
        })
    };
    replace().map_err(|source| KeepFileError {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
