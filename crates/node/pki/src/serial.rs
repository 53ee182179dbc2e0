//! Serial numbers: random, and always sixteen bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const LEN: usize = 16;

/// The number of a certificate of this authority.
///
/// The first byte is 1 to 127: a DER integer is signed and drops leading zeros, and this way every
/// tool shows the same 32 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Serial([u8; LEN]);

/// Why a text is not a serial number of this authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a serial number, which has 32 hexadecimal digits and begins with 01 to 7f"
)]
pub struct ParseSerialError {
    /// The text, shortened.
    pub text: String,
}

impl Serial {
    /// A new one from the system's random number generator.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes: [u8; LEN] = rand::random();
        bytes[0] &= 0x7f;
        bytes[0] = bytes[0].max(1);
        Self(bytes)
    }

    /// The number in a certificate, unless it cannot be one of this authority.
    #[must_use]
    pub fn from_der_integer(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; LEN] = bytes.try_into().ok()?;
        (0x01..=0x7f).contains(&bytes[0]).then_some(Self(bytes))
    }

    /// Big-endian.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Serial {
    type Err = ParseSerialError;

    /// Also takes what other tools print: upper case, colons between bytes, `0x` in front.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseSerialError {
            text: text.chars().take(80).collect(),
        };
        if text.len() > 4 * LEN {
            return Err(refused());
        }
        let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
        let bytes = hex::decode(digits).map_err(|_| refused())?;
        Self::from_der_integer(&bytes).ok_or_else(refused)
    }
}

impl TryFrom<String> for Serial {
    type Error = ParseSerialError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Serial> for String {
    fn from(serial: Serial) -> Self {
        serial.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_positive_full_length_and_read_back() {
        for _ in 0..1000 {
            let serial = Serial::random();
            assert!((1..=0x7f).contains(&serial.as_bytes()[0]));
            assert_eq!(serial.to_string().parse(), Ok(serial));
        }
    }

    #[test]
    fn spellings_of_other_tools_are_taken() {
        let serial: Serial = "0123456789abcdef0123456789abcdef".parse().expect("plain");
        for text in [
            "0123456789ABCDEF0123456789ABCDEF",
            "0x0123456789abcdef0123456789abcdef",
            "01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF",
        ] {
            assert_eq!(text.parse(), Ok(serial), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_refused() {
        let long = "1".repeat(1 << 20);
        for text in [
            "",
            "12",
            "ff23456789abcdef0123456789abcdef",
            "xyz",
            "0023456789abcdef0123456789abcdef",
            &long,
        ] {
            assert!(text.parse::<Serial>().is_err(), "{text:.40}");
        }
    }
}
