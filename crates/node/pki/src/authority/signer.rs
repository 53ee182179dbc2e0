//! Keys of the authority with their certificates, as they are in its files.

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use rcgen::{Issuer, KeyPair, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::error::SignError;
use crate::files;
use crate::layout::Folder;
use crate::ledger::IssuerName;

/// A certificate of the authority with its key.
pub(crate) struct Signer {
    name: IssuerName,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    not_after: Timestamp,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("name", &self.name)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads both files and checks that they belong together.
    pub(super) fn load(folder: &Folder, name: IssuerName) -> Result<Self, SignError> {
        let path = folder.cert(name);
        let pem = files::read_text(&path).map_err(|source| SignError::CertFile {
            issuer: name,
            source,
        })?;
        let key = load_key(folder, name)?;
        let unusable = || SignError::Unusable {
            path: path.clone(),
            what: "certificate",
        };
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| unusable())?;
        let (_, cert) = X509Certificate::from_der(&der).map_err(|_| unusable())?;
        if cert.public_key().raw != key.subject_public_key_info() {
            return Err(SignError::Mismatch {
                key: folder.key(name),
                cert: path,
            });
        }
        let not_after = Timestamp::from_second(cert.validity().not_after.timestamp())
            .map_err(|_| unusable())?;
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|_| unusable())?;
        Ok(Self {
            name,
            issuer,
            pem,
            not_after,
        })
    }

    pub(super) fn name(&self) -> IssuerName {
        self.name
    }

    /// The number of an intermediate; zero for the root.
    pub(super) fn name_number(&self) -> u32 {
        match self.name {
            IssuerName::Root => 0,
            IssuerName::Intermediate(number) => number,
        }
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn not_after(&self) -> Timestamp {
        self.not_after
    }
}

pub(super) fn load_key(folder: &Folder, name: IssuerName) -> Result<KeyPair, SignError> {
    let path = folder.key(name);
    let pem = files::read_secret(&path).map_err(|source| SignError::KeyFile {
        issuer: name,
        source,
    })?;
    KeyPair::from_pem(&pem).map_err(|_| SignError::Unusable {
        path,
        what: "private key",
    })
}

/// As the record has it.
pub(super) fn public_key_hex(key: &KeyPair) -> String {
    hex::encode(key.subject_public_key_info())
}

/// The end of the first certificate in a file.
pub(super) fn not_after(path: &Path, pem: &str) -> Result<Timestamp, SignError> {
    let unusable = || SignError::Unusable {
        path: path.to_owned(),
        what: "certificate",
    };
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| unusable())?;
    let (_, cert) = X509Certificate::from_der(&der).map_err(|_| unusable())?;
    Timestamp::from_second(cert.validity().not_after.timestamp()).map_err(|_| unusable())
}
