//! What certificates, lists and requests say, for people.

use std::net::IpAddr;

use jiff::Timestamp;
use muster_tls::{CertFacts, ReadCertError};
use rcgen::{KeyPair, PublicKeyData as _};
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use crate::request::{CertificateRequest, ReadRequestError};
use crate::serial::Serial;

/// Why a file cannot be described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// There is nothing of the kind in it.
    #[error("there is no certificate, revocation list or request in PEM form in it")]
    Nothing,
    /// A block in it is damaged.
    #[error("block {number} is not well-formed PEM")]
    Pem {
        /// Which one, from 1.
        number: usize,
    },
    /// A certificate in it cannot be read.
    #[error("block {number}, a certificate, cannot be read")]
    Certificate {
        /// Which one, from 1.
        number: usize,
        /// Why.
        #[source]
        source: ReadCertError,
    },
    /// A list in it cannot be read.
    #[error("block {number}, a revocation list, is malformed")]
    List {
        /// Which one, from 1.
        number: usize,
    },
    /// A request in it is not acceptable.
    #[error("block {number}, a certificate request, is not acceptable")]
    Request {
        /// Which one, from 1.
        number: usize,
        /// Why.
        #[source]
        source: ReadRequestError,
    },
}

/// One block of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PemItem {
    /// A certificate.
    Certificate(CertDetails),
    /// A revocation list.
    List(ListDetails),
    /// A request.
    Request(CertificateRequest),
    /// A private key, of which nothing is shown.
    PrivateKey,
}

/// What a certificate says. Nothing is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertDetails {
    /// Names, serial and validity, bounded and escaped.
    pub facts: CertFacts,
    /// Its number, if this program's authorities make such ones.
    pub serial: Option<Serial>,
    /// IP addresses it is for.
    pub ips: Vec<IpAddr>,
    /// What it is good for.
    pub purposes: Vec<&'static str>,
    /// Whether it may sign others.
    pub is_ca: bool,
    /// The public key, SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
}

impl CertDetails {
    /// Reads a certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, ReadCertError> {
        let facts = CertFacts::from_der(der)?;
        let (_, cert) = X509Certificate::from_der(der).map_err(|_| ReadCertError::Malformed)?;
        let mut details = Self {
            facts,
            serial: Serial::from_der_integer(cert.raw_serial()),
            ips: Vec::new(),
            purposes: Vec::new(),
            is_ca: cert.is_ca(),
            public_key: cert.public_key().raw.to_vec(),
        };
        for extension in cert.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::ExtendedKeyUsage(usage) => {
                    details
                        .purposes
                        .extend(usage.server_auth.then_some("serverAuth"));
                    details
                        .purposes
                        .extend(usage.client_auth.then_some("clientAuth"));
                    details.purposes.extend(usage.any.then_some("any"));
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    let addresses = names.general_names.iter().filter_map(|name| match name {
                        GeneralName::IPAddress(bytes) => crate::request::address(bytes),
                        _ => None,
                    });
                    details.ips.extend(addresses);
                }
                _ => {}
            }
        }
        Ok(details)
    }
}

/// What a revocation list says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListDetails {
    /// Whose list it is.
    pub issuer: String,
    /// Its number.
    pub number: Option<u64>,
    /// Since when it holds.
    pub this_update: Timestamp,
    /// When a newer one is to be expected.
    pub next_update: Option<Timestamp>,
    /// Numbers of the revoked certificates, in hexadecimal.
    pub revoked: Vec<String>,
}

impl ListDetails {
    fn from_der(der: &[u8]) -> Option<Self> {
        let (_, list) = CertificateRevocationList::from_der(der).ok()?;
        Some(Self {
            issuer: list.issuer().to_string().escape_debug().take(200).collect(),
            number: list
                .crl_number()
                .and_then(|number| u64::try_from(number).ok()),
            this_update: Timestamp::from_second(list.last_update().timestamp()).ok()?,
            next_update: list
                .next_update()
                .and_then(|time| Timestamp::from_second(time.timestamp()).ok()),
            revoked: list
                .iter_revoked_certificates()
                .map(|cert| hex::encode(cert.raw_serial()))
                .collect(),
        })
    }
}

/// Describes every certificate, list, request and key in a text, in order.
pub fn describe_pem(pem: &str) -> Result<Vec<PemItem>, DescribeError> {
    let mut items = Vec::new();
    for (index, section) in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()).enumerate() {
        let number = index + 1;
        let (kind, der) = section.map_err(|_| DescribeError::Pem { number })?;
        items.push(match kind {
            SectionKind::Certificate => CertDetails::from_der(&der)
                .map(PemItem::Certificate)
                .map_err(|source| DescribeError::Certificate { number, source })?,
            SectionKind::Crl => ListDetails::from_der(&der)
                .map(PemItem::List)
                .ok_or(DescribeError::List { number })?,
            SectionKind::Csr => CertificateRequest::from_der(&der)
                .map(PemItem::Request)
                .map_err(|source| DescribeError::Request { number, source })?,
            SectionKind::PrivateKey | SectionKind::EcPrivateKey | SectionKind::RsaPrivateKey => {
                PemItem::PrivateKey
            }
            _ => continue,
        });
    }
    match items.is_empty() {
        true => Err(DescribeError::Nothing),
        false => Ok(items),
    }
}

/// The public key of a private one in PEM, as [`CertDetails::public_key`] has it; none if it is not a key that can sign.
#[must_use]
pub fn public_key_of(private_pem: &str) -> Option<Vec<u8>> {
    KeyPair::from_pem(private_pem)
        .ok()
        .map(|key| key.subject_public_key_info())
}

#[cfg(test)]
mod tests;
