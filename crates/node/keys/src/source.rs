//! Certificates for TLS, by the URLs that an identity manager gives.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use muster_tls::{CertMaterial, CertSource, FileCertSource, LoadCertError, LoadWarning, OwnCert};
use rustls::sign::CertifiedKey;

use crate::clock::now;
use crate::pkcs11;
use crate::url::{CertUrl, ParseUrlError, Pkcs11Uri};

/// Certificate, key, roots and revocation lists for [`muster_tls::CertStore`]: the first two by URL
/// (`file:` or `pkcs11:`), the others in files.
///
/// A clone shares the URLs. Keep one, give one to [`CertStore::open`](muster_tls::CertStore::open); when
/// the certificate was renewed, call [`set_urls`](Self::set_urls) and then
/// [`CertStore::reload`](muster_tls::CertStore::reload).
#[derive(Debug, Clone)]
pub struct UrlCertSource {
    own: Arc<Mutex<Own>>,
    trust: FileCertSource,
}

/// Certificate and key are in the same kind of place: nobody who has a token keeps the key outside.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Own {
    Files {
        cert: PathBuf,
        key: PathBuf,
    },
    Token {
        cert: Box<Pkcs11Uri>,
        key: Box<Pkcs11Uri>,
    },
}

impl UrlCertSource {
    /// A source for these URLs. Without roots nobody is trusted, which is enough for a server that asks
    /// for no client certificates; revocation lists need roots.
    pub fn new(
        cert_url: &str,
        key_url: &str,
        roots: Vec<PathBuf>,
        crls: Vec<PathBuf>,
    ) -> Result<Self, ParseUrlError> {
        let trust = roots
            .into_iter()
            .fold(FileCertSource::default(), FileCertSource::with_ca);
        Ok(Self {
            own: Arc::new(Mutex::new(Own::parse(cert_url, key_url)?)),
            trust: crls.into_iter().fold(trust, FileCertSource::with_crl),
        })
    }

    /// Gives the certificate that the next load reads. Nothing is read before that.
    pub fn set_urls(&self, cert_url: &str, key_url: &str) -> Result<(), ParseUrlError> {
        let own = Own::parse(cert_url, key_url)?;
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
        Ok(())
    }

    fn own(&self) -> Own {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.clone()
    }
}

impl Own {
    fn parse(cert_url: &str, key_url: &str) -> Result<Self, ParseUrlError> {
        match (cert_url.parse()?, key_url.parse()?) {
            (CertUrl::File(cert), CertUrl::File(key)) => Ok(Self::Files { cert, key }),
            (CertUrl::Pkcs11(cert), CertUrl::Pkcs11(key)) => Ok(Self::Token { cert, key }),
            _ => Err(ParseUrlError::Mixed),
        }
    }

    fn load(&self, warnings: &mut Vec<LoadWarning>) -> Result<Option<OwnCert>, LoadCertError> {
        match self {
            Self::Files { cert, key } => {
                let mut material = FileCertSource::own_only(cert, key).load()?;
                warnings.append(&mut material.warnings);
                Ok(material.own)
            }
            Self::Token { cert, key } => {
                let own = load_from_token(cert, key)?;
                let summary = own.summary();
                if !(summary.not_before..=summary.not_after).contains(&now()) {
                    let certificate = Box::new(summary.clone());
                    warnings.push(LoadWarning::OutsideValidity { certificate });
                }
                Ok(Some(own))
            }
        }
    }
}

fn load_from_token(cert: &Pkcs11Uri, key: &Pkcs11Uri) -> Result<OwnCert, LoadCertError> {
    let failed = |uri: &Pkcs11Uri, source| LoadCertError::Source {
        object: uri.to_string(),
        source,
    };
    let chain = pkcs11::load_chain(cert).map_err(|error| failed(cert, error.into()))?;
    let signing = pkcs11::load_key(key).map_err(|error| failed(key, error.into()))?;
    OwnCert::new(CertifiedKey::new(chain, Arc::new(signing)))
        .map_err(|error| failed(cert, error.into()))
}

impl CertSource for UrlCertSource {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        let mut material = self.trust.load()?;
        material.own = self.own().load(&mut material.warnings)?;
        Ok(material)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = self.trust.files();
        if let Own::Files { cert, key } = self.own() {
            files.extend([cert, key]);
        }
        files
    }
}
