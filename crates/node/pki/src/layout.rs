//! Names in an authority's folder, and what `authority.json` says.

use std::path::{Path, PathBuf};

use muster_tls::SystemId;
use serde::{Deserialize, Serialize};

use crate::files::{self, Access, FileError};
use crate::ledger::IssuerName;

pub(crate) const LOCK: &str = "lock";
pub(crate) const RECORD: &str = "record.jsonl";
const AUTHORITY: &str = "authority.json";
const ALL_LISTS: &str = "crl.pem";
const FORMAT: u32 = 1;

/// Why a folder's `authority.json` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// It is not there: this is no authority, or one whose making was interrupted.
    #[error("there is no certificate authority in {} (muster pki init makes one)", folder.display())]
    NoAuthority {
        /// The folder.
        folder: PathBuf,
    },
    /// It cannot be read or written.
    #[error("cannot use the authority in {}", folder.display())]
    File {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        #[source]
        source: FileError,
    },
    /// It is not what this program writes.
    #[error("{} is not the description of an authority", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The system id in it is none.
    #[error("{} has a system id that is none", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: muster_tls::ParseSpiffeError,
    },
    /// A newer program made it.
    #[error("{} has format {found}, this program knows {FORMAT}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    system_id: String,
}

/// The folder of an authority.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn cert(&self, issuer: IssuerName) -> PathBuf {
        self.0.join(format!("{}.crt.pem", issuer.file_stem()))
    }

    pub(crate) fn key(&self, issuer: IssuerName) -> PathBuf {
        self.0.join(format!("{}.key.pem", issuer.file_stem()))
    }

    pub(crate) fn list(&self, issuer: IssuerName) -> PathBuf {
        self.0.join(format!("{}.crl.pem", issuer.file_stem()))
    }

    pub(crate) fn all_lists(&self) -> PathBuf {
        self.0.join(ALL_LISTS)
    }

    pub(crate) fn read_system(&self) -> Result<SystemId, LayoutError> {
        let path = self.0.join(AUTHORITY);
        let text = files::read_text(&path).map_err(|source| {
            let folder = self.0.clone();
            if source.is_not_found() {
                LayoutError::NoAuthority { folder }
            } else {
                LayoutError::File { folder, source }
            }
        })?;
        let description: Description = match serde_json::from_str(&text) {
            Ok(description) => description,
            Err(source) => return Err(LayoutError::Malformed { path, source }),
        };
        if description.format != FORMAT {
            let found = description.format;
            return Err(LayoutError::Newer { path, found });
        }
        SystemId::new(description.system_id).map_err(|source| LayoutError::System { path, source })
    }

    pub(crate) fn write_system(&self, system: &SystemId) -> Result<(), FileError> {
        let description = Description {
            format: FORMAT,
            system_id: system.to_string(),
        };
        let mut text = serde_json::to_string_pretty(&description).expect("two plain fields");
        text.push('\n');
        files::write(&self.0.join(AUTHORITY), text.as_bytes(), Access::Public)
    }

    /// Names of files that interrupted making may have left, beside those of an authority.
    pub(crate) fn is_own_name(name: &str) -> bool {
        let name = name.strip_suffix(".new").unwrap_or(name);
        [LOCK, RECORD, AUTHORITY].contains(&name) || name.starts_with("root.")
    }
}
