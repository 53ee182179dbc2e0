//! What Muster reads from a certificate beside its signature: names, serial number and validity.
//!
//! Everything here was written by whoever made the certificate, and a refused certificate may be
//! anybody's. Texts are therefore bounded, and printed with control characters escaped.

use std::fmt;

use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate, X509Name};

/// Longest text taken from one name of a certificate; longer ones make the certificate unreadable.
const MAX_NAME_LEN: usize = 4096;
/// Most names taken from one certificate.
const MAX_NAMES: usize = 1024;
/// Longest text printed for one field of a [`CertSummary`].
const MAX_SHOWN: usize = 200;

/// Why a certificate cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadCertError {
    /// It is not an X.509 certificate in DER.
    #[error("it is not a well-formed X.509 certificate")]
    Malformed,
    /// The subject alternative names are doubled, or one of them is not text.
    #[error("its alternative names are malformed")]
    AltNames,
    /// A name is not text, or longer than Muster reads, or there are too many.
    #[error("its names are not readable, too long or too many")]
    Names,
}

/// The names in a certificate that an identity can be made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertNames {
    /// Common names of the issuer.
    pub issuer_cn: Vec<String>,
    /// Common names of the subject.
    pub subject_cn: Vec<String>,
    /// Organizations of the subject.
    pub subject_o: Vec<String>,
    /// DNS alternative names, in lower case.
    pub dns: Vec<String>,
    /// URI alternative names.
    pub uris: Vec<String>,
}

/// What a log line says about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertSummary {
    /// Subject, as one line.
    pub subject: String,
    /// Issuer, as one line.
    pub issuer: String,
    /// Serial number in lower-case hexadecimal, two digits a byte, without separators.
    pub serial: String,
    /// Validity from here, in seconds since 1970.
    pub not_before: i64,
    /// Validity until here, in seconds since 1970.
    pub not_after: i64,
}

/// Everything read from one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertFacts {
    /// Names for making an identity.
    pub names: CertNames,
    /// Description for people.
    pub summary: CertSummary,
}

impl CertFacts {
    /// Reads a certificate. Nothing is verified: the caller knows whether the signature is good.
    pub fn from_der(der: &[u8]) -> Result<Self, ReadCertError> {
        let (rest, cert) = X509Certificate::from_der(der).map_err(|_| ReadCertError::Malformed)?;
        if !rest.is_empty() {
            return Err(ReadCertError::Malformed);
        }
        let mut names = CertNames {
            issuer_cn: texts(cert.issuer().iter_common_name())?,
            subject_cn: texts(cert.subject().iter_common_name())?,
            subject_o: texts(cert.subject().iter_organization())?,
            ..CertNames::default()
        };
        let alternative = cert
            .subject_alternative_name()
            .map_err(|_| ReadCertError::AltNames)?;
        for name in alternative
            .iter()
            .flat_map(|extension| &extension.value.general_names)
        {
            match name {
                GeneralName::DNSName(name) => {
                    push_bounded(&mut names.dns, name.to_ascii_lowercase())?;
                }
                GeneralName::URI(uri) => push_bounded(&mut names.uris, (*uri).to_owned())?,
                GeneralName::Invalid(..) => return Err(ReadCertError::AltNames),
                _ => {}
            }
        }
        Ok(Self {
            names,
            summary: CertSummary::new(&cert),
        })
    }
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>,
) -> Result<Vec<String>, ReadCertError> {
    let mut found = Vec::new();
    for attribute in attributes {
        let text = attribute.as_str().map_err(|_| ReadCertError::Names)?;
        push_bounded(&mut found, text.to_owned())?;
    }
    Ok(found)
}

fn push_bounded(list: &mut Vec<String>, text: String) -> Result<(), ReadCertError> {
    if text.len() > MAX_NAME_LEN || list.len() >= MAX_NAMES {
        return Err(ReadCertError::Names);
    }
    list.push(text);
    Ok(())
}

impl CertSummary {
    /// Reads what can be told about a certificate that was not accepted, if it is one at all.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        X509Certificate::from_der(der)
            .ok()
            .map(|(_, cert)| Self::new(&cert))
    }

    fn new(cert: &X509Certificate<'_>) -> Self {
        Self {
            subject: shown_name(cert.subject()),
            issuer: shown_name(cert.issuer()),
            serial: hex(cert.raw_serial()),
            not_before: cert.validity().not_before.timestamp(),
            not_after: cert.validity().not_after.timestamp(),
        }
    }

    /// The validity in words, as `2026-01-31T00:00:00Z to 2027-01-31T00:00:00Z`.
    pub fn validity(&self) -> impl fmt::Display + '_ {
        Validity(self)
    }
}

impl fmt::Display for CertSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "subject \"{}\", issuer \"{}\", serial {}, valid {}",
            self.subject,
            self.issuer,
            self.serial,
            self.validity()
        )
    }
}

struct Validity<'a>(&'a CertSummary);

impl fmt::Display for Validity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to {}",
            Timestamp(self.0.not_before),
            Timestamp(self.0.not_after)
        )
    }
}

/// Seconds since 1970, printed as RFC 3339 in UTC.
pub(crate) struct Timestamp(pub(crate) i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ASN1Time::from_timestamp(self.0) {
            Ok(time) => {
                let time = time.to_datetime();
                write!(
                    f,
                    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
                    time.year(),
                    u8::from(time.month()),
                    time.day(),
                    time.hour(),
                    time.minute(),
                    time.second()
                )
            }
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

fn shown_name(name: &X509Name<'_>) -> String {
    shown(&name.to_string())
}

/// Makes foreign text fit for a log line: no control characters, bounded.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= MAX_SHOWN {
            out.push_str("...");
            break;
        }
        if character.is_control() || character == '"' || is_invisible(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Characters that change how the rest of a line looks, or that cannot be seen.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

fn hex(bytes: &[u8]) -> String {
    // A serial number has at most 20 bytes (RFC 5280); anything beyond is not worth a longer line.
    let shown = &bytes[..bytes.len().min(32)];
    shown.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_lab::pki::{CertSpec, Pki};
    use proptest::prelude::*;
    use rustls_pki_types::{CertificateDer, pem::PemObject as _};

    fn leaf(spec: &CertSpec) -> CertificateDer<'static> {
        let issued = Pki::new("system-1").unwrap().issue(spec).unwrap();
        CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()
    }

    #[test]
    fn names_and_validity_are_read() {
        let spec = CertSpec::node("node-1", "sm")
            .dns("Node-1.Example")
            .common_name("the node")
            .organization("Aos");
        let facts = CertFacts::from_der(&leaf(&spec)).unwrap();
        assert_eq!(facts.names.subject_cn, ["the node"]);
        assert_eq!(facts.names.subject_o, ["Aos"]);
        assert_eq!(facts.names.dns, ["node-1.example"]);
        assert_eq!(facts.names.uris, ["spiffe://system-1/node/node-1/sm"]);
        assert!(facts.summary.not_before < facts.summary.not_after);
        assert!(facts.summary.to_string().contains("the node"));
    }

    #[test]
    fn times_are_printed_for_people() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp(1_700_000_000).to_string(), "2023-11-14T22:13:20Z");
        assert_eq!(Timestamp(i64::MAX).to_string(), format!("@{}", i64::MAX));
    }

    #[test]
    fn foreign_text_cannot_forge_a_log_line() {
        assert_eq!(
            shown("a\nWARN forged\u{1b}[0m\""),
            "a\\nWARN forged\\u{1b}[0m\\\""
        );
        assert_eq!(shown("cm\u{202e}ms"), "cm\\u{202e}ms");
        assert!(shown(&"x".repeat(10_000)).len() < 300);
    }

    #[test]
    fn trailing_bytes_make_a_certificate_unreadable() {
        let mut der = leaf(&CertSpec::node("n", "sm")).to_vec();
        assert!(CertFacts::from_der(&der).is_ok());
        der.push(0);
        assert_eq!(CertFacts::from_der(&der), Err(ReadCertError::Malformed));
    }

    proptest! {
        #[test]
        fn a_damaged_certificate_never_panics(at in 0usize..400, bit in 0u8..8, cut in 0usize..600) {
            let mut der = leaf(&CertSpec::node("n", "sm").dns("d")).to_vec();
            let index = at % der.len();
            der[index] ^= 1 << bit;
            der.truncate(der.len().saturating_sub(cut % 3 * 10));
            if let Ok(facts) = CertFacts::from_der(&der) {
                let _ = facts.summary.to_string();
            }
        }
    }
}
