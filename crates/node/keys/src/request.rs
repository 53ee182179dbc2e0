//! Signing requests and self-signed certificates, made with keys that only sign.

use std::fmt;
use std::sync::Arc;

use rcgen::string::Ia5String;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData, SanType, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::SignatureScheme;
use rustls::sign::{Signer, SigningKey};
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

use crate::config::{AlternativeName, KeyPurpose, ModuleConfig};
use crate::names::KeyAlgorithm;

/// Longest common name.
const MAX_COMMON_NAME: usize = 255;
/// Most URIs in one request, and the longest of them: the SPIFFE specification's limit.
const MAX_URIS: usize = 8;
const MAX_URI_LEN: usize = 2048;

/// Whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsrSubject {
    /// The common name.
    pub common_name: String,
    /// URI alternative names; the SPIFFE identity is one.
    pub uris: Vec<String>,
}

impl CsrSubject {
    /// A subject with this common name and no URI.
    pub fn new(common_name: impl Into<String>) -> Self {
        Self {
            common_name: common_name.into(),
            uris: Vec::new(),
        }
    }

    /// Adds a URI, such as a [`SpiffeId`](muster_tls::SpiffeId).
    #[must_use]
    pub fn uri(mut self, uri: impl ToString) -> Self {
        self.uris.push(uri.to_string());
        self
    }
}

/// A certificate signing request in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr(String);

impl Csr {
    pub(crate) fn from_pem(pem: String) -> Self {
        Self(pem)
    }

    /// The text.
    pub fn as_pem(&self) -> &str {
        &self.0
    }

    /// The text.
    pub fn into_pem(self) -> String {
        self.0
    }
}

impl fmt::Display for Csr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a request or a self-signed certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeRequestError {
    /// The common name is empty or too long.
    #[error("a common name has 1 to {MAX_COMMON_NAME} bytes, this one has {len}")]
    CommonName {
        /// Its length.
        len: usize,
    },
    /// Too many URIs.
    #[error("a request has at most {MAX_URIS} URIs, this one has {found}")]
    UriCount {
        /// How many.
        found: usize,
    },
    /// A name cannot stand in a certificate.
    #[error("the alternative name {name:?} cannot stand in a certificate")]
    Name {
        /// The name, cut to a bearable length.
        name: String,
    },
    /// The key says nothing about its public half, or cannot sign as its kind does.
    #[error("the key is not an {algorithm} key")]
    Key {
        /// What it should be.
        algorithm: KeyAlgorithm,
    },
    /// The key did not sign.
    #[error("cannot sign with the new key")]
    Sign(#[source] rcgen::Error),
}

/// Everything that makes two requests the same one. Kept in the index, so that asking again is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    common_name: String,
    uris: Vec<String>,
    names: Vec<String>,
    client_auth: bool,
    server_auth: bool,
    rsa: bool,
}

impl Wanted {
    pub(crate) fn new(
        config: &ModuleConfig,
        subject: &CsrSubject,
    ) -> Result<Self, MakeRequestError> {
        let len = subject.common_name.len();
        if !(1..=MAX_COMMON_NAME).contains(&len) {
            return Err(MakeRequestError::CommonName { len });
        }
        let found = subject.uris.len();
        if found > MAX_URIS {
            return Err(MakeRequestError::UriCount { found });
        }
        if let Some(uri) = subject.uris.iter().find(|uri| uri.len() > MAX_URI_LEN) {
            return Err(unusable_name(uri));
        }
        let names = config.alternative_names.iter().map(|name| match name {
            AlternativeName::Dns(name) => name.clone(),
            AlternativeName::Ip(address) => address.to_string(),
        });
        Ok(Self {
            common_name: subject.common_name.clone(),
            uris: subject.uris.clone(),
            names: names.collect(),
            client_auth: config.purposes.contains(&KeyPurpose::ClientAuth),
            server_auth: config.purposes.contains(&KeyPurpose::ServerAuth),
            rsa: config.algorithm == KeyAlgorithm::Rsa2048,
        })
    }

    fn algorithm(&self) -> KeyAlgorithm {
        if self.rsa {
            KeyAlgorithm::Rsa2048
        } else {
            KeyAlgorithm::EcP384
        }
    }

    fn params(&self) -> Result<CertificateParams, MakeRequestError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, self.common_name.as_str());
        for uri in &self.uris {
            params.subject_alt_names.push(SanType::URI(ia5(uri)?));
        }
        for name in &self.names {
            params.subject_alt_names.push(match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(ia5(name)?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if self.client_auth {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        if self.server_auth {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        Ok(params)
    }

    /// The request, signed by the key that it is for.
    pub(crate) fn sign(&self, key: &Arc<dyn SigningKey>) -> Result<Csr, MakeRequestError> {
        let key = RequestKey::new(key, self.algorithm())?;
        self.params()?
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .map(Csr)
            .map_err(MakeRequestError::Sign)
    }

    /// A certificate signed by its own key, which never expires: there is nobody to renew it.
    pub(crate) fn self_sign(
        &self,
        key: &Arc<dyn SigningKey>,
    ) -> Result<CertificateDer<'static>, MakeRequestError> {
        let key = RequestKey::new(key, self.algorithm())?;
        let mut params = self.params()?;
        // Not from now: a node without a clock must be able to make one and to use it later.
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = date_time_ymd(9999, 12, 31);
        params
            .self_signed(&key)
            .map(|cert| cert.der().clone())
            .map_err(MakeRequestError::Sign)
    }
}

/// Whether a key is of the configured kind.
pub(crate) fn is_kind(key: &Arc<dyn SigningKey>, algorithm: KeyAlgorithm) -> bool {
    RequestKey::new(key, algorithm).is_ok()
}

fn ia5(name: &str) -> Result<Ia5String, MakeRequestError> {
    Ia5String::try_from(name).map_err(|_| unusable_name(name))
}

fn unusable_name(name: &str) -> MakeRequestError {
    MakeRequestError::Name {
        name: name.chars().take(100).collect(),
    }
}

/// A signing key as the encoder of requests wants it.
struct RequestKey {
    signer: Box<dyn Signer>,
    /// The public half without what says its kind.
    public: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl RequestKey {
    fn new(key: &Arc<dyn SigningKey>, algorithm: KeyAlgorithm) -> Result<Self, MakeRequestError> {
        let (scheme, encoded): (_, &'static SignatureAlgorithm) = match algorithm {
            KeyAlgorithm::EcP384 => (
                SignatureScheme::ECDSA_NISTP384_SHA384,
                &PKCS_ECDSA_P384_SHA384,
            ),
            KeyAlgorithm::Rsa2048 => (SignatureScheme::RSA_PKCS1_SHA256, &PKCS_RSA_SHA256),
        };
        let parts = || {
            let signer = key.choose_scheme(&[scheme])?;
            let spki = key.public_key()?;
            let (_, spki) = SubjectPublicKeyInfo::from_der(&spki).ok()?;
            Some(Self {
                signer,
                public: spki.subject_public_key.data.to_vec(),
                algorithm: encoded,
            })
        };
        parts().ok_or(MakeRequestError::Key { algorithm })
    }
}

impl PublicKeyData for RequestKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl rcgen::SigningKey for RequestKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.signer.sign(message).map_err(|error| {
            // The encoder's error has no room for the reason.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a key did not sign"
            );
            rcgen::Error::RemoteKeyError
        })
    }
}
