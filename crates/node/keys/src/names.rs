//! Names of certificate types and of keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name of a certificate type: it is part of file names and token labels.
const MAX_TYPE_LEN: usize = 32;

/// Why a text names no certificate type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a certificate type has 1 to {MAX_TYPE_LEN} characters out of A-Z a-z 0-9 - _ and starts with a letter or digit"
)]
pub struct ParseCertTypeError;

/// What a certificate is for: `iam`, `cm`, `sm`, `online`, `offline`, or whatever is configured.
///
/// Letters, digits, `-` and `_` only, so that it is safe in a file name, a token label and a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertType(String);

impl CertType {
    /// Checks `text` and takes it.
    pub fn new(text: impl Into<String>) -> Result<Self, ParseCertTypeError> {
        let text = text.into();
        let well_formed = (1..=MAX_TYPE_LEN).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if well_formed {
            Ok(Self(text))
        } else {
            Err(ParseCertTypeError)
        }
    }

    /// The text of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CertType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CertType {
    type Err = ParseCertTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// Names a key and the certificate that belongs to it: 128 random bits, the `CKA_ID` in a token and
/// part of the name of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    /// Bytes in an id.
    pub const LEN: usize = 16;

    /// The id with these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// A new one, from the kernel's generator.
    ///
    /// Fails only on a kernel without `getrandom`.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; Self::LEN];
        random_bytes(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no key id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key id has 32 lower-case hexadecimal digits")]
pub struct ParseKeyIdError;

impl FromStr for KeyId {
    type Err = ParseKeyIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; Self::LEN];
        // Two spellings of one id would be two names of one file.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ParseKeyIdError);
        }
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseKeyIdError)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for KeyId {
    type Error = ParseKeyIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.to_string()
    }
}

/// Fills `bytes` from the kernel's generator.
pub(crate) fn random_bytes(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(())
}

/// Kinds of keys that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum KeyAlgorithm {
    /// ECDSA on P-384; `ecc` in the configuration.
    #[default]
    EcP384,
    /// RSA with 2048 bits; `rsa` in the configuration.
    Rsa2048,
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EcP384 => "EC P-384",
            Self::Rsa2048 => "RSA 2048",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cert_types_are_safe_in_file_names_and_labels() {
        for good in ["iam", "online", "disk-encryption", "a_1", "9"] {
            assert_eq!(CertType::new(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(MAX_TYPE_LEN + 1);
        for bad in ["", "..", "a/b", "-a", "_a", "a b", "a;b", "ä", "a\0", &long] {
            assert_eq!(CertType::new(bad), Err(ParseCertTypeError), "{bad:?}");
        }
    }

    #[test]
    fn key_ids_have_one_spelling() {
        let id = KeyId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, KeyId::random().unwrap());
        let upper = "AA".repeat(KeyId::LEN);
        for bad in ["", "00", &upper, &"0".repeat(33), &"zz".repeat(16)] {
            assert_eq!(bad.parse::<KeyId>(), Err(ParseKeyIdError), "{bad:?}");
        }
    }
}
