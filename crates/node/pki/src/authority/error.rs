//! What can go wrong with an authority, one enum per family of operations.

use std::path::PathBuf;

use jiff::Timestamp;
use muster_tls::SystemId;

use crate::files::FileError;
use crate::layout::LayoutError;
use crate::ledger::IssuerName;
use crate::lock::LockError;
use crate::record::RecordError;
use crate::serial::Serial;

/// Why an authority cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitAuthorityError {
    /// The folder cannot be made or looked into.
    #[error("cannot make an authority in {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Something else is in the folder.
    #[error("{} holds {name:?}, which is not an authority's; choose an empty or new folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// One of the files.
        name: String,
    },
    /// There is an authority for another system.
    #[error("{} is already the authority of system {found}; choose another folder for {wanted}", folder.display())]
    OtherSystem {
        /// The folder.
        folder: PathBuf,
        /// Whose authority it is.
        found: SystemId,
        /// Whose it was to be.
        wanted: SystemId,
    },
    /// The clock shows a time that no certificate can have.
    #[error("no certificate can be made at {now}: the clock is wrong")]
    Clock {
        /// The time.
        now: Timestamp,
    },
    /// The root cannot be made.
    #[error("cannot make the root certificate")]
    Sign {
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(FileError),
    /// It was made, or was there, and cannot be opened.
    #[error(transparent)]
    Open(OpenAuthorityError),
}

/// Why an authority cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenAuthorityError {
    /// There is none, or not one of this program's.
    #[error(transparent)]
    Layout(LayoutError),
    /// Somebody else has it.
    #[error(transparent)]
    Lock(LockError),
    /// The record cannot be used.
    #[error(transparent)]
    Record(RecordError),
    /// A file cannot be read.
    #[error(transparent)]
    File(FileError),
    /// A key or certificate of the authority cannot be used.
    #[error(transparent)]
    Sign(SignError),
    /// There is no intermediate and none can be made, or it cannot be certified again.
    #[error("the authority has no usable intermediate")]
    Intermediate(#[source] IssueCertError),
    /// The revocation lists lag behind and cannot be signed.
    #[error(transparent)]
    Lists(SignListsError),
}

impl OpenAuthorityError {
    /// Whether there is simply no authority.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Layout(LayoutError::NoAuthority { .. }))
    }
}

/// Why a key and certificate of the authority itself cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The certificate's file cannot be read.
    #[error("cannot use the certificate of the {issuer}")]
    CertFile {
        /// Whose.
        issuer: IssuerName,
        /// Why.
        #[source]
        source: FileError,
    },
    /// The key's file cannot be read. A root key that is kept elsewhere has to be put back for this.
    #[error("cannot use the private key of the {issuer}")]
    KeyFile {
        /// Whose.
        issuer: IssuerName,
        /// Why.
        #[source]
        source: FileError,
    },
    /// A file is not what it should be.
    #[error("{} holds no usable {what}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// The two do not belong together.
    #[error("{} is not the key of {}", key.display(), cert.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        cert: PathBuf,
    },
}

impl SignError {
    pub(crate) fn is_key_missing(&self) -> bool {
        matches!(self, Self::KeyFile { source, .. } if source.is_not_found())
    }

    pub(crate) fn is_cert_missing(&self) -> bool {
        matches!(self, Self::CertFile { source, .. } if source.is_not_found())
    }
}

/// Why a certificate cannot be issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueCertError {
    /// It is to be for another system.
    #[error("this is the authority of system {authority}, it certifies nothing of {asked}")]
    OtherSystem {
        /// The authority's.
        authority: SystemId,
        /// The certificate's.
        asked: SystemId,
    },
    /// The authority itself ends too soon.
    #[error(
        "no certificate for {holder} can be made: the authority's own ends at {not_after}, or the clock is wrong"
    )]
    TooLate {
        /// For whom.
        holder: String,
        /// The end of the certificate above.
        not_after: Timestamp,
    },
    /// There is no such certificate to renew.
    #[error("no certificate with serial number {serial} was issued here")]
    Unknown {
        /// The number.
        serial: Serial,
    },
    /// What is revoked is not renewed.
    #[error("certificate {serial} is revoked and is not renewed; issue a new one with a new key")]
    Revoked {
        /// The number.
        serial: Serial,
    },
    /// Intermediates renew themselves.
    #[error(
        "certificate {serial} is an intermediate's, which is renewed by itself when it is time"
    )]
    NotAPeer {
        /// The number.
        serial: Serial,
    },
    /// The recorded public key cannot be used.
    #[error("the public key that is recorded for certificate {serial} cannot be used")]
    RecordedKey {
        /// The number.
        serial: Serial,
    },
    /// A key pair cannot be made.
    #[error("cannot make a key for {holder}")]
    MakeKey {
        /// For whom.
        holder: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Signing failed.
    #[error("cannot sign the certificate of {holder}")]
    Sign {
        /// For whom.
        holder: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// It cannot be recorded, so nobody gets it.
    #[error(transparent)]
    Record(RecordError),
    /// A file cannot be written.
    #[error(transparent)]
    File(FileError),
    /// A key of the authority cannot be used.
    #[error(transparent)]
    Key(SignError),
}

/// Why a certificate cannot be revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RevokeCertError {
    /// There is no such certificate.
    #[error("no certificate with serial number {serial} was issued here")]
    Unknown {
        /// The number.
        serial: Serial,
    },
    /// The intermediate is replaced, not just revoked.
    #[error(
        "certificate {serial} is the intermediate's, which is not just revoked but replaced (muster pki revoke --intermediate)"
    )]
    IsIntermediate {
        /// The number.
        serial: Serial,
    },
    /// It cannot be recorded.
    #[error(transparent)]
    Record(RecordError),
    /// It is recorded, and the list cannot be signed; it will be at the next opening.
    #[error(transparent)]
    Lists(SignListsError),
    /// The root's key is needed.
    #[error(transparent)]
    RootKey(SignError),
    /// The old intermediate is revoked, the new one is not there; it will be made at the next opening.
    #[error("the old intermediate is revoked, and there is no new one yet")]
    Successor(#[source] IssueCertError),
}

/// Why revocation lists cannot be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignListsError {
    /// The clock shows a time that no list can have.
    #[error("no revocation list can be made at {now}: the clock is wrong")]
    Clock {
        /// The time.
        now: Timestamp,
    },
    /// Signing failed.
    #[error("cannot sign the revocation list of the {issuer}")]
    Sign {
        /// Whose.
        issuer: IssuerName,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The list's number cannot be recorded.
    #[error(transparent)]
    Record(RecordError),
    /// The list cannot be written or read.
    #[error(transparent)]
    File(FileError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(SignError),
}
