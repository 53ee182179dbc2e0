//! Certificates, keys, roots and revocation lists in PEM files.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _};
use zeroize::{Zeroize as _, Zeroizing};

use crate::facts::{CertFacts, shown};
use crate::material::{
    CertMaterial, CertSource, LoadCertError, LoadWarning, OwnCert, OwnCertError, Trust, provider,
};

/// A sanity limit, far above any real chain, bundle or revocation list.
const MAX_FILE_LEN: u64 = 64 * 1024 * 1024;

/// Files in PEM. Only the parts that are given are read, so that a source says by itself what it can
/// be used for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileCertSource {
    own: Option<OwnFiles>,
    trust: Option<TrustFiles>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnFiles {
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TrustFiles {
    /// At least one.
    ca: Vec<PathBuf>,
    crl: Vec<PathBuf>,
}

impl TrustFiles {
    fn new(ca: PathBuf) -> Self {
        Self {
            ca: vec![ca],
            crl: Vec::new(),
        }
    }
}

impl FileCertSource {
    /// For mutual TLS: the own chain (own certificate first), its key, and the CA certificates.
    pub fn mutual(
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        ca: impl Into<PathBuf>,
    ) -> Self {
        Self {
            own: Some(OwnFiles {
                cert: cert.into(),
                key: key.into(),
            }),
            trust: Some(TrustFiles::new(ca.into())),
        }
    }

    /// For a server that asks for no client certificates.
    pub fn own_only(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            own: Some(OwnFiles {
                cert: cert.into(),
                key: key.into(),
            }),
            trust: None,
        }
    }

    /// For a client without a certificate.
    pub fn trust_only(ca: impl Into<PathBuf>) -> Self {
        Self {
            own: None,
            trust: Some(TrustFiles::new(ca.into())),
        }
    }

    /// Adds a file of CA certificates to those that are trusted. A source that trusted nobody trusts
    /// these from then on.
    #[must_use]
    pub fn with_ca(mut self, ca: impl Into<PathBuf>) -> Self {
        match &mut self.trust {
            Some(trust) => trust.ca.push(ca.into()),
            None => self.trust = Some(TrustFiles::new(ca.into())),
        }
        self
    }

    /// Adds a file of revocation lists, which from then on has to exist; all such files together must
    /// have a list of every CA in a peer's chain. Without effect on a source that trusts nobody.
    #[must_use]
    pub fn with_crl(mut self, crl: impl Into<PathBuf>) -> Self {
        if let Some(trust) = &mut self.trust {
            trust.crl.push(crl.into());
        }
        self
    }
}

impl CertSource for FileCertSource {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        let mut warnings = Vec::new();
        let own = self
            .own
            .as_ref()
            .map(|files| files.load(&mut warnings))
            .transpose()?;
        let trust = self
            .trust
            .as_ref()
            .map(|files| files.load(&mut warnings))
            .transpose()?;
        Ok(CertMaterial {
            own,
            trust,
            warnings,
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        let own = self.own.iter().flat_map(|files| [&files.cert, &files.key]);
        let trust = self
            .trust
            .iter()
            .flat_map(|files| files.ca.iter().chain(&files.crl));
        own.chain(trust).cloned().collect()
    }
}

impl OwnFiles {
    fn load(&self, warnings: &mut Vec<LoadWarning>) -> Result<OwnCert, LoadCertError> {
        let chain = read_pem::<CertificateDer<'static>>(&self.cert, "certificate")?;
        let (bytes, mode) = read(&self.key)?;
        let bytes = Zeroizing::new(bytes);
        if mode & 0o077 != 0 {
            warnings.push(LoadWarning::KeyReadableByOthers {
                path: self.key.clone(),
                mode,
            });
        }
        let mut der = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| LoadCertError::KeyPem {
            path: self.key.clone(),
        })?;
        let key = provider().key_provider.load_private_key(der.clone_key());
        der.zeroize();
        let key = key.map_err(|source| LoadCertError::Key {
            path: self.key.clone(),
            source,
        })?;
        let own = OwnCert::new(CertifiedKey::new(chain, key)).map_err(|error| match error {
            OwnCertError::Empty => LoadCertError::Empty {
                path: self.cert.clone(),
                wanted: "certificate",
            },
            OwnCertError::Certificate { position, source } => LoadCertError::Certificate {
                path: self.cert.clone(),
                position,
                source,
            },
            OwnCertError::KeyMismatch => LoadCertError::KeyMismatch {
                cert: self.cert.clone(),
                key: self.key.clone(),
            },
        })?;
        let summary = own.summary();
        if !(summary.not_before..=summary.not_after).contains(&now()) {
            let certificate = Box::new(summary.clone());
            warnings.push(LoadWarning::OutsideValidity { certificate });
        }
        Ok(own)
    }
}

impl TrustFiles {
    fn load(&self, warnings: &mut Vec<LoadWarning>) -> Result<Trust, LoadCertError> {
        let mut roots = RootCertStore::empty();
        let mut ca_names = Vec::new();
        for path in &self.ca {
            let ders = read_pem::<CertificateDer<'static>>(path, "CA certificate")?;
            for (index, der) in ders.into_iter().enumerate() {
                let (path, position) = (path.clone(), index + 1);
                let facts =
                    CertFacts::from_der(&der).map_err(|source| LoadCertError::Certificate {
                        path: path.clone(),
                        position,
                        source,
                    })?;
                ca_names.push(facts.summary.subject);
                roots.add(der).map_err(|source| LoadCertError::Root {
                    path,
                    position,
                    source,
                })?;
            }
        }
        if self.crl.is_empty() {
            return Trust::new(roots, Vec::new(), &names(&self.ca));
        }
        let mut crls = Vec::new();
        for path in &self.crl {
            crls.append(&mut read_pem::<CertificateRevocationListDer<'static>>(
                path,
                "certificate revocation list",
            )?);
        }
        let mut covered = Vec::new();
        for der in &crls {
            // One that does not parse here is refused by `Trust::new` below, with a better reason.
            if let Ok((_, list)) = CertificateRevocationList::from_der(der.as_ref()) {
                let issuer = shown(&list.issuer().to_string());
                let next_update = list.next_update().map(|time| time.timestamp());
                if let Some(next_update) = next_update.filter(|due| *due < now()) {
                    let issuer = issuer.clone();
                    warnings.push(LoadWarning::StaleRevocationList {
                        issuer,
                        next_update,
                    });
                }
                covered.push(issuer);
            }
        }
        let uncovered = ca_names.into_iter().filter(|name| !covered.contains(name));
        warnings.extend(uncovered.map(|ca| LoadWarning::NoRevocationList { ca }));
        Trust::new(roots, crls, &names(&self.crl))
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn read(path: &Path) -> Result<(Vec<u8>, u32), LoadCertError> {
    let failed = |source| LoadCertError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // Reserved at once: growing would leave copies of a key in freed memory.
    let capacity = usize::try_from(metadata.len().min(MAX_FILE_LEN)).unwrap_or_default() + 1;
    let mut bytes = Vec::with_capacity(capacity);
    file.take(MAX_FILE_LEN + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE_LEN {
        return Err(LoadCertError::TooLarge {
            path: path.to_owned(),
            max: MAX_FILE_LEN,
        });
    }
    Ok((bytes, metadata.permissions().mode() & 0o7777))
}

fn read_pem<T: PemObject>(path: &Path, wanted: &'static str) -> Result<Vec<T>, LoadCertError> {
    let (bytes, _) = read(path)?;
    let items = T::pem_slice_iter(&bytes)
        .collect::<Result<Vec<T>, _>>()
        .map_err(|source| LoadCertError::Pem {
            path: path.to_owned(),
            source,
        })?;
    if items.is_empty() {
        return Err(LoadCertError::Empty {
            path: path.to_owned(),
            wanted,
        });
    }
    Ok(items)
}
