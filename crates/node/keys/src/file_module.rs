//! Keys and certificates in files of one folder: `key_<id>.pem` (0600) and `cert_<id>.pem`.
//!
//! The folder is made with mode 0700 and belongs to one certificate type. Keys are EC P-384 in PKCS#8,
//! not encrypted: whoever may read the folder is the owner of the keys. Files of other names are left
//! alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::sign::SigningKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::warn;
use zeroize::{Zeroize as _, Zeroizing};

use crate::module::{Contents, KeyModule, KeyModuleError};
use crate::names::{KeyAlgorithm, KeyId};
use crate::{chain, durable, url};

const KEY_MODE: u32 = 0o600;
const CERT_MODE: u32 = 0o644;
/// Longest key file that is read.
const MAX_KEY_FILE: usize = 64 * 1024;

/// Why a folder of keys did not do as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileModuleError {
    /// The folder cannot be made or listed.
    #[error("cannot use the key folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key file does not have a key. What it has is left out: it may be part of one.
    #[error("{} has no usable private key in PEM", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// A key could not be made.
    #[error("cannot make the key {}", path.display())]
    Generate {
        /// The file that it was for.
        path: PathBuf,
        /// What the generator said.
        source: rcgen::Error,
    },
    /// Keys of this kind are not made in files.
    #[error("keys in files are EC P-384, not {algorithm}: {}", path.display())]
    Algorithm {
        /// The file that it was for.
        path: PathBuf,
        /// What was asked for.
        algorithm: KeyAlgorithm,
    },
}

/// Keys and certificates in a folder.
#[derive(Debug)]
pub struct FileModule {
    folder: PathBuf,
}

impl FileModule {
    /// Keys in `folder`, which must be an absolute path and need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    fn key_path(&self, id: KeyId) -> PathBuf {
        self.folder.join(format!("key_{id}.pem"))
    }

    fn cert_path(&self, id: KeyId) -> PathBuf {
        self.folder.join(format!("cert_{id}.pem"))
    }

    fn folder_error(&self, source: io::Error) -> FileModuleError {
        FileModuleError::Folder {
            path: self.folder.clone(),
            source,
        }
    }

    fn paths(&self) -> Result<Vec<PathBuf>, FileModuleError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.folder_error(error)),
        };
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(|error| self.folder_error(error))
    }

    fn write(&self, path: PathBuf, content: &[u8], mode: u32) -> Result<(), FileModuleError> {
        durable::make_folder(&self.folder).map_err(|error| self.folder_error(error))?;
        durable::write(&path, content, mode)
            .map_err(|source| FileModuleError::Write { path, source })
    }
}

fn remove(path: PathBuf) -> Result<(), FileModuleError> {
    durable::remove(&path).map_err(|source| FileModuleError::Remove { path, source })
}

/// What a file of the folder is, by its name.
enum Kind {
    Key(KeyId),
    Cert(KeyId),
    /// Half written when a process died.
    Leftover,
    Foreign,
}

fn kind(path: &Path) -> Kind {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ours = |start| {
        let name = name.strip_suffix(".new").unwrap_or(&name);
        let id = name.strip_prefix(start)?.strip_suffix(".pem")?;
        id.parse::<KeyId>().ok()
    };
    match (ours("key_"), ours("cert_")) {
        (None, None) => Kind::Foreign,
        _ if durable::is_temporary(path) => Kind::Leftover,
        (Some(id), _) => Kind::Key(id),
        (_, Some(id)) => Kind::Cert(id),
    }
}

impl KeyModule for FileModule {
    /// Makes the folder; there is no password to it.
    fn set_owner(&self, _password: &str) -> Result<(), KeyModuleError> {
        durable::make_folder(&self.folder).map_err(|error| self.folder_error(error))?;
        Ok(())
    }

    fn clear(&self) -> Result<(), KeyModuleError> {
        for path in self.paths()? {
            if !matches!(kind(&path), Kind::Foreign) {
                remove(path)?;
            }
        }
        Ok(())
    }

    fn contents(&self) -> Result<Contents, KeyModuleError> {
        let mut contents = Contents::default();
        for path in self.paths()? {
            match kind(&path) {
                Kind::Foreign => {}
                Kind::Leftover => remove(path)?,
                Kind::Key(id) => {
                    contents.keys.insert(id);
                }
                Kind::Cert(id) => {
                    let content = durable::read(&path, chain::MAX_PEM).map_err(|source| {
                        let path = path.clone();
                        FileModuleError::Read { path, source }
                    })?;
                    let certs: Result<Vec<_>, _> =
                        CertificateDer::pem_slice_iter(&content).collect();
                    match certs {
                        Ok(certs) if !certs.is_empty() => {
                            contents.certs.insert(id, certs);
                        }
                        // Such a file was not written here; it is nobody's certificate.
                        _ => warn!(path = %path.display(), "a certificate file has no certificate"),
                    }
                }
            }
        }
        Ok(contents)
    }

    fn create_key(
        &self,
        id: KeyId,
        algorithm: KeyAlgorithm,
    ) -> Result<Arc<dyn SigningKey>, KeyModuleError> {
        let path = self.key_path(id);
        if algorithm != KeyAlgorithm::EcP384 {
            return Err(FileModuleError::Algorithm { path, algorithm }.into());
        }
        let pair = match KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384) {
            Ok(pair) => pair,
            Err(source) => return Err(FileModuleError::Generate { path, source }.into()),
        };
        let pem = Zeroizing::new(pair.serialize_pem());
        self.write(path.clone(), pem.as_bytes(), KEY_MODE)?;
        Ok(signing_key(&path, pem.as_bytes())?)
    }

    fn key(&self, id: KeyId) -> Result<Option<Arc<dyn SigningKey>>, KeyModuleError> {
        let path = self.key_path(id);
        match durable::read(&path, MAX_KEY_FILE) {
            Ok(pem) => Ok(Some(signing_key(&path, &Zeroizing::new(pem))?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileModuleError::Read { path, source }.into()),
        }
    }

    fn remove_key(&self, id: KeyId) -> Result<(), KeyModuleError> {
        Ok(remove(self.key_path(id))?)
    }

    fn store_cert(
        &self,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<(), KeyModuleError> {
        let pem = chain::to_pem(chain);
        Ok(self.write(self.cert_path(id), pem.as_bytes(), CERT_MODE)?)
    }

    fn remove_cert(&self, id: KeyId) -> Result<(), KeyModuleError> {
        Ok(remove(self.cert_path(id))?)
    }

    fn cert_url(&self, id: KeyId) -> String {
        url::of_file(&self.cert_path(id))
    }

    fn key_url(&self, id: KeyId) -> String {
        url::of_file(&self.key_path(id))
    }
}

fn signing_key(path: &Path, pem: &[u8]) -> Result<Arc<dyn SigningKey>, FileModuleError> {
    let unusable = || FileModuleError::Key {
        path: path.to_owned(),
    };
    let mut der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| unusable())?;
    let key = rustls::crypto::ring::sign::any_supported_type(&der);
    der.zeroize();
    key.map_err(|_| unusable())
}

#[cfg(test)]
mod tests;
