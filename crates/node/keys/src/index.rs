//! The index of a certificate type on disk: one JSON file, replaced atomically.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::durable;
use crate::names::CertType;
use crate::reconcile::Index;

/// Version of the file's form.
const VERSION: u32 = 1;
/// Longest index file that is read: far more than 64 certificates and one request need.
const MAX_LEN: usize = 1024 * 1024;

/// Why an index could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The folder cannot be made.
    #[error("cannot make the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read the key index {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was written by a later version, which may have kept what this one does not know.
    #[error("the key index {} has version {found}, newer than {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file cannot be written.
    #[error("cannot write the key index {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Versioned {
    version: u32,
    #[serde(flatten)]
    index: Index,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Where the index of one type is.
#[derive(Debug)]
pub(crate) struct IndexFile {
    path: PathBuf,
}

impl IndexFile {
    pub(crate) fn new(folder: &Path, cert_type: &CertType) -> Self {
        Self {
            path: folder.join(format!("{cert_type}.json")),
        }
    }

    /// The index; none when there is no file, or when it is damaged, which is logged: what counts is
    /// in the key module.
    pub(crate) fn load(&self) -> Result<Option<Index>, IndexError> {
        let path = || self.path.clone();
        let content = match durable::read(&self.path, MAX_LEN) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(IndexError::Read {
                    path: path(),
                    source,
                });
            }
        };
        match serde_json::from_slice::<VersionOnly>(&content) {
            Ok(VersionOnly { version: found }) if found > VERSION => {
                return Err(IndexError::Newer {
                    path: path(),
                    found,
                });
            }
            _ => {}
        }
        match serde_json::from_slice::<Versioned>(&content) {
            Ok(versioned) => Ok(Some(versioned.index)),
            Err(error) => {
                warn!(
                    path = %self.path.display(),
                    error = &error as &dyn std::error::Error,
                    "a key index is damaged and is made anew from the keys and certificates"
                );
                Ok(None)
            }
        }
    }

    pub(crate) fn save(&self, index: &Index) -> Result<(), IndexError> {
        let versioned = Versioned {
            version: VERSION,
            index: index.clone(),
        };
        let content = serde_json::to_vec_pretty(&versioned).map_err(io::Error::from);
        content
            .and_then(|content| durable::write(&self.path, &content, 0o600))
            .map_err(|source| IndexError::Write {
                path: self.path.clone(),
                source,
            })
    }

    pub(crate) fn remove(&self) -> Result<(), IndexError> {
        durable::remove(&self.path).map_err(|source| IndexError::Write {
            path: self.path.clone(),
            source,
        })
    }
}
