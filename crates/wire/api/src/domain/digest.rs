//! Content digests as the OCI image specification registers them.

use std::fmt;
use std::str::FromStr;

use super::error::{Excerpt, InvalidValue, Problem};

/// A digest of content: `sha256:` and 64 or `sha512:` and 128 lower-case hexadecimal digits.
///
/// Other algorithms are refused: a node could not verify the content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(Bytes);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Bytes {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

/// How a digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DigestAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl DigestAlgorithm {
    /// The name that stands before the colon, and as the folder below `blobs/`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl Digest {
    const EXPECTED: &str = "sha256:<64 hex> or sha512:<128 hex> in lower case";

    /// The digest with this SHA-256 value.
    pub fn from_sha256(value: [u8; 32]) -> Self {
        Self(Bytes::Sha256(value))
    }

    /// The digest with this SHA-512 value.
    pub fn from_sha512(value: [u8; 64]) -> Self {
        Self(Bytes::Sha512(value))
    }

    /// How the content is to be verified.
    pub fn algorithm(&self) -> DigestAlgorithm {
        match self.0 {
            Bytes::Sha256(_) => DigestAlgorithm::Sha256,
            Bytes::Sha512(_) => DigestAlgorithm::Sha512,
        }
    }

    /// The value to compare a computed one with.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Sha256(value) => value,
            Bytes::Sha512(value) => value,
        }
    }

    /// What stands after the colon.
    pub fn to_hex(&self) -> String {
        hex::encode(self.as_bytes())
    }
}

impl FromStr for Digest {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let malformed = || {
            let problem = Problem::Malformed {
                value: Excerpt::new(text),
                expected: Self::EXPECTED,
            };
            InvalidValue::new("digest", problem)
        };
        if text.is_empty() {
            return Err(InvalidValue::new("digest", Problem::Missing));
        }
        let (algorithm, digits) = text.split_once(':').ok_or_else(malformed)?;
        // The hexadecimal decoder takes upper case as well, which would give one blob two names.
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(malformed());
        }
        match algorithm {
            "sha256" => {
                let mut value = [0; 32];
                hex::decode_to_slice(digits, &mut value).map_err(|_| malformed())?;
                Ok(Self::from_sha256(value))
            }
            "sha512" => {
                let mut value = [0; 64];
                hex::decode_to_slice(digits, &mut value).map_err(|_| malformed())?;
                Ok(Self::from_sha512(value))
            }
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm().as_str(), self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_oci_does_not_register_is_refused() {
        let hex = "ab".repeat(32);
        for text in [
            String::new(),
            hex.clone(),
            "sha256:".to_owned(),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}0"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("SHA256:{hex}"),
            format!("sha512:{hex}"),
            format!("md5:{hex}"),
            format!("sha256:{hex}\n"),
            format!("sha256:../{}", &hex[3..]),
        ] {
            assert!(text.parse::<Digest>().is_err(), "accepted {text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_digest_reads_what_it_writes(short in any::<[u8; 32]>(), long in any::<[u8; 32]>()) {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(&short);
            wide[32..].copy_from_slice(&long);
            for digest in [Digest::from_sha256(short), Digest::from_sha512(wide)] {
                prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            }
        }

        #[test]
        fn an_accepted_text_is_the_canonical_one(text in "(sha256|sha512|sha1):[0-9a-fA-F]{60,130}") {
            if let Ok(digest) = text.parse::<Digest>() {
                prop_assert_eq!(digest.to_string(), text);
            }
        }
    }
}
