//! One generation of what TLS needs, and where it comes from.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::VerifierBuilderError;
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use rustls_pki_types::{CertificateRevocationListDer, pem};

use crate::facts::{CertFacts, CertSummary, ReadCertError, Timestamp};

/// Where certificates, keys, roots and revocation lists come from.
///
/// The private key is a signing object, not bytes: a source whose key lives in a hardware token gives
/// a [`rustls::sign::SigningKey`] that signs there.
pub trait CertSource: fmt::Debug + Send + Sync + 'static {
    /// Reads everything anew. May block; it runs on a thread where that is allowed.
    fn load(&self) -> Result<CertMaterial, LoadCertError>;

    /// Files whose change means that [`load`](Self::load) would give something else.
    fn files(&self) -> Vec<PathBuf>;

    /// Whether the files are looked at now and then without a notice of their change. Notices are
    /// missed on network file systems and when a folder above is swapped. A daemon that must not wake
    /// up at rest says no, and reloads when it is told to; a folder that cannot be watched is looked
    /// at all the same.
    fn rescans(&self) -> bool {
        true
    }
}

/// Why certificates could not be loaded. Names the file or object; never says what a key file holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadCertError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is longer than any that Muster reads.
    #[error("{} is larger than {max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        max: u64,
    },
    /// A file is not PEM.
    #[error("{} is not well-formed PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// A file has nothing of what it is for.
    #[error("{} has no {wanted} in it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it should have.
        wanted: &'static str,
    },
    /// A certificate of the chain or a root is not a certificate.
    #[error("certificate number {position} in {} is unusable", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        position: usize,
        /// What is wrong.
        source: ReadCertError,
    },
    /// A root cannot be used as one.
    #[error("CA certificate number {position} in {} is unusable", path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        position: usize,
        /// What is wrong.
        source: rustls::Error,
    },
    /// A key file has no private key that could be read. What the parser saw is left out: it may be
    /// part of the key.
    #[error("{} has no readable, unencrypted private key in PEM", path.display())]
    KeyPem {
        /// The file.
        path: PathBuf,
    },
    /// The key's kind is not supported.
    #[error("the private key in {} is unusable", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The key is not the certificate's.
    #[error("the private key in {} does not belong to the certificate in {}", key.display(), cert.display())]
    KeyMismatch {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The revocation lists or the roots cannot be used together.
    #[error("the CA certificates or revocation lists of {object} are unusable")]
    Trust {
        /// The file or object.
        object: String,
        /// What is wrong.
        source: VerifierBuilderError,
    },
    /// Another source than files failed.
    #[error("cannot load certificates from {object}")]
    Source {
        /// The token, service or whatever it is.
        object: String,
        /// What it said.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Something about loaded material that works but that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadWarning {
    /// Others than the owner can read a private key.
    KeyReadableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The own certificate is outside its validity; peers will refuse it.
    OutsideValidity {
        /// The certificate.
        certificate: Box<CertSummary>,
    },
    /// A revocation list should have been replaced by now. It stays in force: a device may be
    /// offline for long, and an old list is better than none.
    StaleRevocationList {
        /// Who issued it.
        issuer: String,
        /// When the next one was due, in seconds since 1970.
        next_update: i64,
    },
    /// A CA has no revocation list while others have: everybody it certified is refused.
    NoRevocationList {
        /// The CA.
        ca: String,
    },
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyReadableByOthers { path, mode } => write!(
                f,
                "private key {} can be read by others than its owner (mode {mode:04o}); make it 0600",
                path.display()
            ),
            Self::OutsideValidity { certificate } => write!(
                f,
                "the own certificate is outside its validity and peers will refuse it: {certificate}"
            ),
            Self::StaleRevocationList {
                issuer,
                next_update,
            } => write!(
                f,
                "the revocation list of \"{issuer}\" was to be renewed by {}; it stays in force",
                Timestamp(*next_update)
            ),
            Self::NoRevocationList { ca } => write!(
                f,
                "revocation lists are in use but \"{ca}\" has none: certificates it issued are refused"
            ),
        }
    }
}

/// Whom to trust: roots, and revocation lists that bind their certificates.
#[derive(Clone)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    crls: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust {
    /// Checks that there is a root and that every list can be read, so that whatever is built from it
    /// later cannot fail. `object` names the origin in errors.
    pub fn new(
        roots: RootCertStore,
        crls: Vec<CertificateRevocationListDer<'static>>,
        object: &str,
    ) -> Result<Self, LoadCertError> {
        let trust = Self {
            roots: Arc::new(roots),
            crls,
        };
        trust
            .server_verifier()
            .map_err(|source| LoadCertError::Trust {
                object: object.to_owned(),
                source,
            })?;
        Ok(trust)
    }

    pub(crate) fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    pub(crate) fn crls(&self) -> &[CertificateRevocationListDer<'static>] {
        &self.crls
    }

    pub(crate) fn server_verifier(
        &self,
    ) -> Result<Arc<WebPkiServerVerifier>, VerifierBuilderError> {
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&self.roots), provider())
            .with_crls(self.crls.iter().cloned())
            .build()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("roots", &self.roots.len())
            .field("crls", &self.crls.len())
            .finish()
    }
}

/// A certificate chain with its signing key, known to belong together.
#[derive(Clone)]
pub struct OwnCert {
    certified: Arc<CertifiedKey>,
    summary: CertSummary,
}

/// Why a chain and a key do not make an own certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnCertError {
    /// The chain has no certificate.
    #[error("the certificate chain is empty")]
    Empty,
    /// A certificate of the chain cannot be read.
    #[error("certificate number {position} of the chain is unusable")]
    Certificate {
        /// Which one, from 1.
        position: usize,
        /// What is wrong.
        source: ReadCertError,
    },
    /// The key is another one's.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
}

impl OwnCert {
    /// Checks the chain and that the key belongs to its first certificate. A key that does not reveal
    /// its public half (some hardware tokens) is taken on trust.
    pub fn new(certified: CertifiedKey) -> Result<Self, OwnCertError> {
        let mut summary = None;
        for (index, certificate) in certified.cert.iter().enumerate() {
            let facts =
                CertFacts::from_der(certificate).map_err(|source| OwnCertError::Certificate {
                    position: index + 1,
                    source,
                })?;
            summary.get_or_insert(facts.summary);
        }
        let summary = summary.ok_or(OwnCertError::Empty)?;
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Self {
                certified: Arc::new(certified),
                summary,
            }),
            Err(_) => Err(OwnCertError::KeyMismatch),
        }
    }

    /// What the certificate says.
    pub fn summary(&self) -> &CertSummary {
        &self.summary
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

impl fmt::Debug for OwnCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The signing key is somebody else's type: what its Debug prints is not ours to vouch for.
        f.debug_struct("OwnCert")
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

/// Everything a [`CertSource`] gives.
#[derive(Debug, Clone)]
pub struct CertMaterial {
    /// The own certificate; a client may go without.
    pub own: Option<OwnCert>,
    /// Whom to trust; a server that asks for no client certificates may go without.
    pub trust: Option<Trust>,
    /// What the operator should know; logged when this material comes into use.
    pub warnings: Vec<LoadWarning>,
}

impl CertMaterial {
    /// Whether peers could tell the difference.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        let own = match (&self.own, &other.own) {
            (Some(a), Some(b)) => a.certified.cert == b.certified.cert,
            (None, None) => true,
            _ => false,
        };
        let trust = match (&self.trust, &other.trust) {
            (Some(a), Some(b)) => a.roots.roots == b.roots.roots && a.crls == b.crls,
            (None, None) => true,
            _ => false,
        };
        own && trust
    }
}

/// The cryptography in use, chosen here and not by a process-wide default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::OnceLock<Arc<CryptoProvider>> = std::sync::OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}
