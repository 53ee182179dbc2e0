//! The file with the document in force.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let staged = path.with_extension("new");
    let replace = || {
        fs::create_dir_all(folder)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(&staged)?;
        file.write_all(document)?;
        file.sync_all()?;
        hit(STAGED);
        fs::rename(&staged, path)?;
        File::open(folder)?.sync_all()
    };
    replace().map_err(|source| KeepFileError {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
