use std::fmt;
use std::str::FromStr;

/// A 128-bit id of a machine, a boot, a file or a source of sequence numbers, written as 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id128([u8; 16]);

impl Id128 {
    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id's bytes, in the order in which they are printed.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A new random id, marked as a version 4 UUID as systemd does.
    ///
    /// # Errors
    /// The kernel's, when it has no randomness to give.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if got != bytes.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    /// The two halves as the key of the hash function.
    pub(crate) fn hash_key(self) -> (u64, u64) {
        (super::le64(&self.0, 0), super::le64(&self.0, 8))
    }
}

impl fmt::Display for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 hexadecimal digits, with or without the dashes of a UUID")]
pub struct ParseIdError;

impl FromStr for Id128 {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let mut value: u128 = 0;
        let mut digits = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte == b'-' && text.len() == 36 && matches!(at, 8 | 13 | 18 | 23) {
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or(ParseIdError)?;
            digits += 1;
            if digits > 32 {
                return Err(ParseIdError);
            }
            value = value << 4 | u128::from(digit);
        }
        if digits == 32 {
            Ok(Self(value.to_be_bytes()))
        } else {
            Err(ParseIdError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_with_and_without_dashes() {
        let id: Id128 = "3d1219c7c4c5404aaa1f6d2a48adfda4".parse().expect("hex");
        let dashed: Id128 = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
            .parse()
            .expect("uuid");
        assert_eq!(id, dashed);
        assert_eq!(id.to_string(), "3d1219c7c4c5404aaa1f6d2a48adfda4");
        assert_eq!(id.as_bytes()[0], 0x3d);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "3d",
            "3d1219c7c4c5404aaa1f6d2a48adfda",
            "3d1219c7c4c5404aaa1f6d2a48adfda44",
        ] {
            assert_eq!(text.parse::<Id128>(), Err(ParseIdError), "{text}");
        }
        assert_eq!(
            "3d1219c7c4c5404a-aa1f6d2a48adfda4".parse::<Id128>(),
            Err(ParseIdError)
        );
        assert_eq!(
            "3d1219c7-c4c5-404a-aa1f-6d2a48adfdaz".parse::<Id128>(),
            Err(ParseIdError)
        );
    }

    #[test]
    fn random_ids_are_version_four_and_differ() {
        let one = Id128::random().expect("random");
        assert_ne!(one, Id128::random().expect("random"));
        assert_eq!(one.as_bytes()[6] >> 4, 4);
    }
}
