//! All certificate types of a node, and what can be done with them.

mod slot;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use self::slot::Slot;
use crate::chain::CheckChainError;
use crate::config::{ModuleConfig, Storage};
use crate::durable;
use crate::file_module::FileModule;
use crate::index::IndexError;
use crate::info::CertInfo;
use crate::module::{KeyModule, KeyModuleError};
use crate::names::CertType;
use crate::pkcs11::Pkcs11Module;
use crate::request::{Csr, CsrSubject, MakeRequestError};

/// Why a handler could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenHandlerError {
    /// Two modules for one type.
    #[error("the certificate type {cert_type} is configured twice")]
    Twice {
        /// The type.
        cert_type: CertType,
    },
    /// Two types would mix their files.
    #[error("the certificate types {first} and {second} have the same folder {}", folder.display())]
    SharedFolder {
        /// One type.
        first: CertType,
        /// The other one.
        second: CertType,
        /// Their folder.
        folder: PathBuf,
    },
    /// The folder for indexes cannot be made.
    #[error("cannot make the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What went wrong with the place where the keys of a type are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyStoreError {
    /// The key module failed.
    #[error("the key module failed")]
    Module(#[source] Box<KeyModuleError>),
    /// The index failed.
    #[error("the key index failed")]
    Index(#[source] IndexError),
    /// The kernel gave no random bytes.
    #[error("cannot make up a key id")]
    Random(#[source] std::io::Error),
}

impl KeyStoreError {
    fn module(error: KeyModuleError) -> Self {
        Self::Module(Box::new(error))
    }
}

/// Why a type's key store could not be given an owner or cleared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// No such type, or it is disabled.
    #[error("there is no certificate type {cert_type}")]
    UnknownType {
        /// The type.
        cert_type: CertType,
    },
    /// The store cannot be made ready.
    #[error("cannot make the key store of {cert_type} ready")]
    Own {
        /// The type.
        cert_type: CertType,
        /// What failed.
        source: KeyStoreError,
    },
    /// The store cannot be cleared.
    #[error("cannot clear the key store of {cert_type}")]
    Clear {
        /// The type.
        cert_type: CertType,
        /// What failed.
        source: KeyStoreError,
    },
}

/// Why there is no new key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateKeyError {
    /// No such type, or it is disabled.
    #[error("there is no certificate type {cert_type}")]
    UnknownType {
        /// The type.
        cert_type: CertType,
    },
    /// Whether an authority signs is a matter of configuration.
    #[error(
        "certificates of type {cert_type} are {}",
        if *.self_signed { "self-signed; an authority has no part in them" }
        else { "signed by an authority, not by their own key" }
    )]
    WrongKind {
        /// The type.
        cert_type: CertType,
        /// What is configured.
        self_signed: bool,
    },
    /// The request cannot be made.
    #[error("cannot make a signing request for {cert_type}")]
    Request {
        /// The type.
        cert_type: CertType,
        /// What is wrong.
        source: MakeRequestError,
    },
    /// The key cannot be made or kept.
    #[error("cannot make a key for {cert_type}")]
    Store {
        /// The type.
        cert_type: CertType,
        /// What failed.
        source: KeyStoreError,
    },
}

/// Why a certificate was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyCertError {
    /// No such type, or it is disabled.
    #[error("there is no certificate type {cert_type}")]
    UnknownType {
        /// The type.
        cert_type: CertType,
    },
    /// The certificate is not acceptable.
    #[error("the certificate for {cert_type} is refused")]
    Refused {
        /// The type.
        cert_type: CertType,
        /// Why.
        source: CheckChainError,
    },
    /// The certificate cannot be kept.
    #[error("cannot keep the certificate for {cert_type}")]
    Store {
        /// The type.
        cert_type: CertType,
        /// What failed.
        source: KeyStoreError,
    },
}

/// Why no certificate was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindCertError {
    /// No such type, or it is disabled.
    #[error("there is no certificate type {cert_type}")]
    UnknownType {
        /// The type.
        cert_type: CertType,
    },
    /// None has been applied yet, or none has this issuer and serial number.
    #[error("there is no such certificate of type {cert_type}")]
    NotFound {
        /// The type.
        cert_type: CertType,
    },
    /// The store cannot be read.
    #[error("cannot look for certificates of type {cert_type}")]
    Store {
        /// The type.
        cert_type: CertType,
        /// What failed.
        source: KeyStoreError,
    },
}

/// Owner of all keys and certificates of a node.
///
/// Every method may block on a disk or a token: asynchronous callers use a blocking thread. Calls for
/// one type run one after the other, calls for different types side by side.
#[derive(Debug)]
pub struct CertHandler {
    slots: BTreeMap<CertType, Slot>,
}

impl CertHandler {
    /// A handler for the modules that are not disabled; indexes are kept in `folder`.
    ///
    /// Stores are opened and repaired right away. One that cannot be opened, such as a token that has
    /// no owner yet, is logged and opened when it is next used.
    pub fn new(modules: Vec<ModuleConfig>, folder: &Path) -> Result<Self, OpenHandlerError> {
        let mut with_places = Vec::new();
        let mut folders: BTreeMap<PathBuf, CertType> = BTreeMap::new();
        for config in modules.into_iter().filter(|config| !config.disabled) {
            let module: Box<dyn KeyModule> = match &config.storage {
                Storage::Files { folder } => {
                    let second = config.cert_type.clone();
                    if let Some(first) = folders.insert(folder.clone(), second.clone()) {
                        let folder = folder.clone();
                        return Err(OpenHandlerError::SharedFolder {
                            first,
                            second,
                            folder,
                        });
                    }
                    Box::new(FileModule::new(folder))
                }
                Storage::Token(token) => {
                    Box::new(Pkcs11Module::new(token.clone(), &config.cert_type))
                }
            };
            with_places.push((config, module));
        }
        Self::with_modules(with_places, folder)
    }

    /// The same with modules that were made elsewhere.
    pub fn with_modules(
        modules: Vec<(ModuleConfig, Box<dyn KeyModule>)>,
        folder: &Path,
    ) -> Result<Self, OpenHandlerError> {
        durable::make_folder(folder).map_err(|source| OpenHandlerError::Folder {
            path: folder.to_owned(),
            source,
        })?;
        let mut slots = BTreeMap::new();
        for (config, module) in modules {
            let cert_type = config.cert_type.clone();
            let slot = Slot::new(config, module, folder);
            if slots.insert(cert_type.clone(), slot).is_some() {
                return Err(OpenHandlerError::Twice { cert_type });
            }
        }
        for slot in slots.values() {
            slot.open_or_warn();
        }
        Ok(Self { slots })
    }

    /// Types that need a certificate of an authority, in order of name.
    pub fn cert_types(&self) -> Vec<CertType> {
        self.types(|config| !config.self_signed)
    }

    /// Types whose certificates are made by [`create_self_signed`](Self::create_self_signed).
    pub fn self_signed_types(&self) -> Vec<CertType> {
        self.types(|config| config.self_signed)
    }

    fn types(&self, wanted: impl Fn(&ModuleConfig) -> bool) -> Vec<CertType> {
        let slots = self.slots.values();
        slots
            .filter(|slot| wanted(slot.config()))
            .map(|slot| slot.config().cert_type.clone())
            .collect()
    }

    /// How a type is configured; none for an unknown or disabled one.
    pub fn config(&self, cert_type: &CertType) -> Option<&ModuleConfig> {
        self.slots.get(cert_type).map(Slot::config)
    }

    /// Makes the key store of a type ready for use. Repeating it changes nothing, and what the store
    /// keeps stays. `password` administers a new token; an empty one is made up.
    pub fn set_owner(&self, cert_type: &CertType, password: &str) -> Result<(), OwnerError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(OwnerError::UnknownType { cert_type });
        };
        slot.set_owner(password).map_err(|source| OwnerError::Own {
            cert_type: cert_type.clone(),
            source,
        })
    }

    /// Removes all keys and certificates of a type. A store without an owner is already clear; one whose
    /// PIN was lost has to be taken over first, with [`set_owner`](Self::set_owner).
    pub fn clear(&self, cert_type: &CertType) -> Result<(), OwnerError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(OwnerError::UnknownType { cert_type });
        };
        slot.clear().map_err(|source| OwnerError::Clear {
            cert_type: cert_type.clone(),
            source,
        })
    }

    /// Makes a key, and a request for a certificate of it.
    ///
    /// The same call gives the same request, for the same key, until a certificate was applied. A call
    /// for another subject makes another key, and the one that waited is removed.
    pub fn create_key(
        &self,
        cert_type: &CertType,
        subject: &CsrSubject,
    ) -> Result<Csr, CreateKeyError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(CreateKeyError::UnknownType { cert_type });
        };
        slot.create_key(subject)
    }

    /// Takes the certificate of a key that was made here, with its chain, in PEM and in any order.
    ///
    /// It becomes the newest of its type and subscribers are told; when there are more than
    /// `maxItems`, the oldest is removed afterwards. Applying the same one again changes nothing.
    pub fn apply_cert(
        &self,
        cert_type: &CertType,
        chain_pem: &str,
    ) -> Result<CertInfo, ApplyCertError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(ApplyCertError::UnknownType { cert_type });
        };
        slot.apply_cert(chain_pem)
    }

    /// Makes a key and a self-signed certificate of it, unless there is one. Only for types that are
    /// configured so.
    pub fn create_self_signed(&self, cert_type: &CertType) -> Result<CertInfo, CreateKeyError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(CreateKeyError::UnknownType { cert_type });
        };
        slot.create_self_signed()
    }

    /// The newest certificate of a type that has this issuer (DER) and serial number (hexadecimal), as
    /// far as they are given and not empty.
    pub fn cert(
        &self,
        cert_type: &CertType,
        issuer: Option<&[u8]>,
        serial: Option<&str>,
    ) -> Result<CertInfo, FindCertError> {
        let Some(slot) = self.slots.get(cert_type) else {
            let cert_type = cert_type.clone();
            return Err(FindCertError::UnknownType { cert_type });
        };
        let found = slot.find(
            issuer.filter(|issuer| !issuer.is_empty()),
            serial.filter(|serial| !serial.is_empty()),
        );
        let cert_type = cert_type.clone();
        match found {
            Ok(Some(info)) => Ok(info),
            Ok(None) => Err(FindCertError::NotFound { cert_type }),
            Err(source) => Err(FindCertError::Store { cert_type, source }),
        }
    }

    /// The newest certificate of a type, now and whenever it is replaced.
    pub fn subscribe(
        &self,
        cert_type: &CertType,
    ) -> Result<watch::Receiver<Option<CertInfo>>, FindCertError> {
        match self.slots.get(cert_type) {
            Some(slot) => Ok(slot.subscribe()),
            None => {
                let cert_type = cert_type.clone();
                Err(FindCertError::UnknownType { cert_type })
            }
        }
    }
}
