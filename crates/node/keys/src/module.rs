//! What a place for keys can do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rustls::sign::SigningKey;
use rustls_pki_types::CertificateDer;

use crate::file_module::FileModuleError;
use crate::names::{KeyAlgorithm, KeyId};
use crate::pkcs11::TokenError;

/// A place that keeps the keys and certificates of one certificate type.
///
/// An implementor guarantees:
/// * What a call has reported as done survives a power cut, and what it has not reported is there
///   wholly or not at all: in particular a certificate is never listed without its chain.
/// * `create_key`, `store_cert` and the removals may be repeated after an error or the death of the
///   process. Removing what is not there is no error.
/// * A private key is usable through the [`SigningKey`] only, which also tells its public half. It is
///   in no message, error or `Debug` output.
/// * Nothing is touched that belongs to another certificate type.
///
/// Every call may block for as long as the disk or the token takes. There is one owner, the
/// [`CertHandler`](crate::CertHandler), which makes one call at a time; other processes only read.
pub trait KeyModule: fmt::Debug + Send + Sync + 'static {
    /// Prepares the place for a new owner. One that is already owned stays as it is, and so does what
    /// it keeps. `password` is what administers the place, where there is such a thing; empty means
    /// that one is made up.
    fn set_owner(&self, password: &str) -> Result<(), KeyModuleError>;

    /// Removes every key and certificate of the type. A place that was never owned is already clear.
    fn clear(&self) -> Result<(), KeyModuleError>;

    /// What there is, and cleans up what a killed process left half done.
    fn contents(&self) -> Result<Contents, KeyModuleError>;

    /// Makes a key with this id.
    fn create_key(
        &self,
        id: KeyId,
        algorithm: KeyAlgorithm,
    ) -> Result<Arc<dyn SigningKey>, KeyModuleError>;

    /// The key with this id, if there is one.
    fn key(&self, id: KeyId) -> Result<Option<Arc<dyn SigningKey>>, KeyModuleError>;

    /// Removes a key.
    fn remove_key(&self, id: KeyId) -> Result<(), KeyModuleError>;

    /// Keeps the certificate of a key, leaf first, in place of one that the key may have had.
    fn store_cert(
        &self,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<(), KeyModuleError>;

    /// Removes a certificate and its chain.
    fn remove_cert(&self, id: KeyId) -> Result<(), KeyModuleError>;

    /// URL by which other processes find the certificate.
    fn cert_url(&self, id: KeyId) -> String;

    /// URL by which other processes find the key.
    fn key_url(&self, id: KeyId) -> String;
}

/// What a [`KeyModule`] has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Keys.
    pub keys: BTreeSet<KeyId>,
    /// Certificates with their chains, leaf first, by the id of the key.
    pub certs: BTreeMap<KeyId, Vec<CertificateDer<'static>>>,
}

/// Why a place for keys did not do as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyModuleError {
    /// A folder of files.
    #[error(transparent)]
    Files(#[from] FileModuleError),
    /// A token.
    #[error(transparent)]
    Token(#[from] TokenError),
}
