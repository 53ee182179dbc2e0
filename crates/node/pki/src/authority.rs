//! An authority, open for signing.

mod error;
mod init;
mod issue;
mod lists;
mod signer;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_tls::SystemId;
use rcgen::KeyPair;

pub use self::error::{
    InitAuthorityError, IssueCertError, OpenAuthorityError, RevokeCertError, SignError,
    SignListsError,
};
pub use self::init::{InitOutcome, Initialised};
pub use self::issue::{IssuedCert, IssuedKeyPair, RevokeOutcome};
use self::signer::Signer;
use crate::faults;
use crate::files::{self, Access};
use crate::layout::Folder;
use crate::ledger::{Entry, Holder, Issued, IssuerName, Ledger, Reason, Revocation};
use crate::lock::FolderLock;
use crate::record::Record;
use crate::serial::Serial;
use crate::template;
use crate::window::{INTERMEDIATE_YEARS, Window, is_intermediate_due};

/// Something that waits for the root's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neglected {
    /// The intermediate should be certified anew.
    Intermediate {
        /// Its end.
        not_after: Timestamp,
    },
    /// The root's revocation list should be signed anew.
    RootList,
}

/// An authority that this process alone may change.
#[derive(Debug)]
pub struct Authority {
    folder: Folder,
    system: SystemId,
    record: Record,
    root_pem: String,
    root_not_after: Timestamp,
    signer: Signer,
    neglected: Vec<Neglected>,
    _lock: FolderLock,
}

impl Authority {
    /// Opens the authority in a folder, waiting for others that sign there, and finishes what is unfinished or due: an
    /// intermediate, the revocation lists.
    pub fn open(folder: &Path, now: Timestamp) -> Result<Self, OpenAuthorityError> {
        let folder = Folder::new(folder);
        // Looked for before the lock, so that no lock is left in a folder that is no authority.
        folder.read_system().map_err(OpenAuthorityError::Layout)?;
        let lock = FolderLock::take(folder.path()).map_err(OpenAuthorityError::Lock)?;
        Self::open_locked(folder, lock, now)
    }

    fn open_locked(
        folder: Folder,
        lock: FolderLock,
        now: Timestamp,
    ) -> Result<Self, OpenAuthorityError> {
        let system = folder.read_system().map_err(OpenAuthorityError::Layout)?;
        let mut record = Record::open(folder.path()).map_err(OpenAuthorityError::Record)?;
        let root_path = folder.cert(IssuerName::Root);
        let root_pem = files::read_text(&root_path).map_err(OpenAuthorityError::File)?;
        let root_not_after =
            signer::not_after(&root_path, &root_pem).map_err(OpenAuthorityError::Sign)?;
        let mut neglected = Vec::new();
        let root = Root {
            folder: &folder,
            system: &system,
            not_after: root_not_after,
        };
        let signer = root.intermediate(&mut record, &mut neglected, now)?;
        let mut authority = Self {
            folder,
            system,
            record,
            root_pem,
            root_not_after,
            signer,
            neglected,
            _lock: lock,
        };
        authority
            .bring_lists_up_to_date(false, now)
            .map_err(OpenAuthorityError::Lists)?;
        Ok(authority)
    }

    /// Which system it certifies.
    #[must_use]
    pub fn system(&self) -> &SystemId {
        &self.system
    }

    /// What it has done.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.record.ledger()
    }

    /// The root certificate: what everybody has to trust.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// When the root ends.
    #[must_use]
    pub fn root_not_after(&self) -> Timestamp {
        self.root_not_after
    }

    /// What could not be done because the root's key is elsewhere.
    #[must_use]
    pub fn neglected(&self) -> &[Neglected] {
        &self.neglected
    }

    /// Where the revocation lists are, for servers and clients.
    #[must_use]
    pub fn lists_file(&self) -> PathBuf {
        self.folder.all_lists()
    }

    /// Where the root certificate is.
    #[must_use]
    pub fn root_file(&self) -> PathBuf {
        self.folder.cert(IssuerName::Root)
    }

    /// Revokes the intermediate, and with it everything it has signed, and goes on with a new one. Needs the root's key.
    pub fn replace_intermediate(
        &mut self,
        reason: Reason,
        now: Timestamp,
    ) -> Result<(), RevokeCertError> {
        let root = Root {
            folder: &self.folder,
            system: &self.system,
            not_after: self.root_not_after,
        };
        // Known to be here before anything is revoked: without a successor nothing could be signed.
        let root_signer = root.signer().map_err(RevokeCertError::RootKey)?;
        let number = self.signer.name_number();
        let old: Vec<Serial> = self
            .ledger()
            .all()
            .iter()
            .filter(|cert| {
                cert.issued.holder == Holder::Intermediate(number) && cert.revocation.is_none()
            })
            .map(|cert| cert.issued.serial)
            .collect();
        for serial in old {
            let revocation = Revocation {
                serial,
                at: now,
                reason,
            };
            self.record
                .append(Entry::Revoked(revocation))
                .map_err(RevokeCertError::Record)?;
            muster_fault::hit(faults::REVOKED);
        }
        self.signer = root
            .new_intermediate(&root_signer, &mut self.record, now)
            .map_err(RevokeCertError::Successor)?;
        self.bring_lists_up_to_date(false, now)
            .map_err(RevokeCertError::Lists)
    }
}

/// What is needed to sign with the root.
struct Root<'a> {
    folder: &'a Folder,
    system: &'a SystemId,
    not_after: Timestamp,
}

impl Root<'_> {
    /// The root's key, if it is here.
    fn signer(&self) -> Result<Signer, SignError> {
        Signer::load(self.folder, IssuerName::Root)
    }

    /// The intermediate that signs: the newest one, certified again if it is due, or made if there is none.
    fn intermediate(
        &self,
        record: &mut Record,
        neglected: &mut Vec<Neglected>,
        now: Timestamp,
    ) -> Result<Signer, OpenAuthorityError> {
        let number = record.ledger().intermediate().map(|(number, _)| number);
        let signer = match number
            .map(|number| Signer::load(self.folder, IssuerName::Intermediate(number)))
        {
            Some(Ok(signer)) => signer,
            // Recorded, and killed before the certificate was written: nothing was signed with it.
            Some(Err(error)) if error.is_cert_missing() => {
                let root = self.signer().map_err(OpenAuthorityError::Sign)?;
                return self
                    .certify(&root, number.unwrap_or(1), record, now)
                    .map_err(OpenAuthorityError::Intermediate);
            }
            Some(Err(error)) => return Err(OpenAuthorityError::Sign(error)),
            None => {
                let root = self.signer().map_err(OpenAuthorityError::Sign)?;
                return self
                    .new_intermediate(&root, record, now)
                    .map_err(OpenAuthorityError::Intermediate);
            }
        };
        let longest = Window::below(now, INTERMEDIATE_YEARS, Some(self.not_after));
        let would_gain = longest.is_some_and(|window| window.not_after > signer.not_after());
        if !is_intermediate_due(signer.not_after(), now) || !would_gain {
            return Ok(signer);
        }
        match self.signer() {
            Ok(root) => self
                .certify(&root, signer.name_number(), record, now)
                .map_err(OpenAuthorityError::Intermediate),
            Err(error) if error.is_key_missing() => {
                neglected.push(Neglected::Intermediate {
                    not_after: signer.not_after(),
                });
                Ok(signer)
            }
            Err(error) => Err(OpenAuthorityError::Sign(error)),
        }
    }

    /// A new key under the next number, with its certificate.
    fn new_intermediate(
        &self,
        root: &Signer,
        record: &mut Record,
        now: Timestamp,
    ) -> Result<Signer, IssueCertError> {
        let number = record.ledger().highest_intermediate() + 1;
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|source| {
            IssueCertError::MakeKey {
                holder: IssuerName::Intermediate(number).to_string(),
                source,
            }
        })?;
        let pem = zeroize::Zeroizing::new(key.serialize_pem());
        files::write(
            &self.folder.key(IssuerName::Intermediate(number)),
            pem.as_bytes(),
            Access::Secret,
        )
        .map_err(IssueCertError::File)?;
        muster_fault::hit(faults::INTERMEDIATE_KEY_WRITTEN);
        self.certify(root, number, record, now)
    }

    /// A certificate for the key of an intermediate.
    fn certify(
        &self,
        root: &Signer,
        number: u32,
        record: &mut Record,
        now: Timestamp,
    ) -> Result<Signer, IssueCertError> {
        let name = IssuerName::Intermediate(number);
        let holder = || name.to_string();
        let window =
            Window::below(now, INTERMEDIATE_YEARS, Some(self.not_after)).ok_or_else(|| {
                IssueCertError::TooLate {
                    holder: holder(),
                    not_after: self.not_after,
                }
            })?;
        let key = signer::load_key(self.folder, name).map_err(IssueCertError::Key)?;
        let serial = Serial::random();
        let cert = template::authority(self.system, name, serial, window)
            .signed_by(&key, root.issuer())
            .map_err(|source| IssueCertError::Sign {
                holder: holder(),
                source,
            })?;
        let issued = Issued {
            serial,
            issuer: IssuerName::Root,
            holder: Holder::Intermediate(number),
            window,
            key: signer::public_key_hex(&key),
        };
        record
            .append(Entry::Issued(Box::new(issued)))
            .map_err(IssueCertError::Record)?;
        muster_fault::hit(faults::INTERMEDIATE_RECORDED);
        files::write(
            &self.folder.cert(name),
            cert.pem().as_bytes(),
            Access::Public,
        )
        .map_err(IssueCertError::File)?;
        Signer::load(self.folder, name).map_err(IssueCertError::Key)
    }
}

#[cfg(test)]
mod tests;
