//! What others are told about a certificate.

use muster_api::iamanager::v6 as wire;

use crate::names::CertType;

/// A certificate, and where it and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertInfo {
    /// The type.
    pub cert_type: CertType,
    /// URL of the certificate with its chain.
    pub cert_url: String,
    /// URL of the key.
    pub key_url: String,
    /// Serial number, big-endian, without leading zeros.
    pub serial: Vec<u8>,
    /// Name of the issuer, DER.
    pub issuer: Vec<u8>,
    /// Valid from here, in seconds since 1970.
    pub not_before: i64,
    /// Valid until here, in seconds since 1970.
    pub not_after: i64,
}

impl CertInfo {
    /// The serial number in lower-case hexadecimal.
    pub fn serial_hex(&self) -> String {
        hex::encode(&self.serial)
    }

    /// Whether the certificate is valid at this moment, in seconds since 1970.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Whether `serial` (hexadecimal, case and leading zeros do not matter) is this certificate's.
    pub(crate) fn has_serial(&self, serial: &str) -> bool {
        let digits = serial.trim_start_matches('0');
        let own = self.serial_hex();
        digits.eq_ignore_ascii_case(own.trim_start_matches('0'))
    }
}

impl From<CertInfo> for wire::CertInfo {
    fn from(info: CertInfo) -> Self {
        Self {
            r#type: info.cert_type.to_string(),
            cert_url: info.cert_url,
            key_url: info.key_url,
            serial: info.serial,
            issuer: info.issuer,
        }
    }
}
