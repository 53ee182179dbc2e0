//! Requests for certificates (PKCS#10), which anybody may have written.

use std::fmt;
use std::net::IpAddr;

use rcgen::SubjectPublicKeyInfo;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo as ParsedKey;

/// Requests are about a kilobyte; RSA of 8192 bits with many names is four.
const MAX_LEN: usize = 64 * 1024;
/// Names shown to the caller; more are counted as none.
const MAX_ASKED: usize = 256;
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Why a request cannot be certified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRequestError {
    /// It is far longer than any request.
    #[error("the request has {len} bytes, at most {MAX_LEN} are read")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It has no PEM block of that kind.
    #[error("there is no \"CERTIFICATE REQUEST\" in PEM form in it")]
    NotPem,
    /// The block is not a request.
    #[error("the request is malformed")]
    Malformed,
    /// The key is of a kind that is not certified.
    #[error(
        "its key is not certified: only EC P-256, EC P-384, Ed25519 and RSA of 2048 to 8192 bits are"
    )]
    Key,
    /// Whoever wrote the request does not have the private key, or it was changed on the way.
    #[error("its signature is not one of its key, or is made with SHA-1")]
    Signature,
}

/// A request whose sender has shown to have the private key. What it asks for binds nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    key: SubjectPublicKeyInfo,
    key_der: Vec<u8>,
    uris: Vec<String>,
    dns: Vec<String>,
    ips: Vec<IpAddr>,
}

impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRequest")
            .field("uris", &self.uris)
            .field("dns", &self.dns)
            .field("ips", &self.ips)
            .finish_non_exhaustive()
    }
}

impl CertificateRequest {
    /// Reads a request and checks its signature and the strength of its key.
    pub fn from_pem(pem: &str) -> Result<Self, ReadRequestError> {
        if pem.len() > MAX_LEN {
            return Err(ReadRequestError::TooLong { len: pem.len() });
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| ReadRequestError::NotPem)?;
        Self::from_der(&der)
    }

    /// The same for the block alone.
    pub fn from_der(der: &[u8]) -> Result<Self, ReadRequestError> {
        if der.len() > MAX_LEN {
            return Err(ReadRequestError::TooLong { len: der.len() });
        }
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|_| ReadRequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(ReadRequestError::Malformed);
        }
        let key_der = request.certification_request_info.subject_pki.raw;
        let key = read_key(key_der)?;
        let algorithm = &request.signature_algorithm.algorithm;
        if *algorithm == OID_PKCS1_SHA1WITHRSA || *algorithm == OID_SHA1_WITH_RSA {
            return Err(ReadRequestError::Signature);
        }
        request
            .verify_signature()
            .map_err(|_| ReadRequestError::Signature)?;
        let mut read = Self {
            key,
            key_der: key_der.to_vec(),
            uris: Vec::new(),
            dns: Vec::new(),
            ips: Vec::new(),
        };
        read.note_names(&request);
        Ok(read)
    }

    fn note_names(&mut self, request: &X509CertificationRequest<'_>) {
        let Some(extensions) = request.requested_extensions() else {
            return;
        };
        let names = extensions.filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        });
        for name in names.flatten().take(MAX_ASKED) {
            match name {
                GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
                GeneralName::DNSName(name) => self.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => self.ips.extend(address(bytes)),
                _ => {}
            }
        }
    }

    /// URIs that it asks for.
    #[must_use]
    pub fn asked_uris(&self) -> &[String] {
        &self.uris
    }

    /// DNS names that it asks for.
    #[must_use]
    pub fn asked_dns(&self) -> &[String] {
        &self.dns
    }

    /// Addresses that it asks for.
    #[must_use]
    pub fn asked_ips(&self) -> &[IpAddr] {
        &self.ips
    }

    pub(crate) fn key(&self) -> &SubjectPublicKeyInfo {
        &self.key
    }

    pub(crate) fn key_der(&self) -> &[u8] {
        &self.key_der
    }
}

/// Reads a public key that may be certified.
pub(crate) fn read_key(der: &[u8]) -> Result<SubjectPublicKeyInfo, ReadRequestError> {
    let (rest, parsed) = ParsedKey::from_der(der).map_err(|_| ReadRequestError::Malformed)?;
    if !rest.is_empty() {
        return Err(ReadRequestError::Malformed);
    }
    // Curves are told apart by rcgen, which knows no others than those that are certified.
    if let PublicKey::RSA(key) = parsed.parsed().map_err(|_| ReadRequestError::Key)?
        && !RSA_BITS.contains(&key.key_size())
    {
        return Err(ReadRequestError::Key);
    }
    SubjectPublicKeyInfo::from_der(der).map_err(|_| ReadRequestError::Key)
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
