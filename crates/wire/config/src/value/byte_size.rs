//! Sizes such as `64KiB`, `10MB` and `1G`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use super::Wanted;

/// A number of bytes in a configuration.
///
/// Read from a whole number of bytes or from `<number><unit>`, case ignored: `KiB MiB GiB TiB` and, as
/// in unit files, the bare letters `K M G T` are powers of 1024; `KB MB GB TB` are powers of 1000.
/// `Display` writes the largest power of 1024 that divides the number, which reads back the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

/// Why a text is not a [`ByteSize`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseByteSizeError {
    /// It looks like nothing that is known.
    #[error("a size (expected e.g. 64KiB, 10MB, 1G or a number of bytes)")]
    Unknown,
    /// Not a whole number.
    #[error("a size: fractions are not allowed (write e.g. 1536MiB instead of 1.5GiB)")]
    Fraction,
    /// More than 64 bits hold.
    #[error("a size of less than 16 EiB")]
    TooLarge,
}

impl ByteSize {
    /// A size of so many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, ParseByteSizeError> {
        let text = text.trim();
        let number_end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(number_end);
        if number.is_empty() {
            return Err(ParseByteSizeError::Unknown);
        }
        if unit.starts_with(['.', ',']) {
            return Err(ParseByteSizeError::Fraction);
        }
        let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(ParseByteSizeError::Unknown),
        };
        let number: u64 = number.parse().map_err(|_| ParseByteSizeError::TooLarge)?;
        number
            .checked_mul(factor)
            .map(Self)
            .ok_or(ParseByteSizeError::TooLarge)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40_u32, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByteSizeVisitor)
    }
}

struct ByteSizeVisitor;

impl Visitor<'_> for ByteSizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ParseByteSizeError::Unknown)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(|error: ParseByteSizeError| {
            E::invalid_value(Unexpected::Str(text), &Wanted(&error))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<ByteSize, E> {
        let error = ParseByteSizeError::Fraction;
        Err(E::invalid_value(Unexpected::Float(number), &Wanted(&error)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_mean_what_the_documentation_says() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("64KiB", 65_536),
            ("10MB", 10_000_000),
            ("1G", 1 << 30),
            ("1g", 1 << 30),
            (" 2 TiB ", 2 << 40),
            ("3kb", 3_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_reason() {
        use ParseByteSizeError::{Fraction, TooLarge, Unknown};
        for (text, error) in [
            ("", Unknown),
            ("KiB", Unknown),
            ("-1", Unknown),
            ("10 parsecs", Unknown),
            ("1.5GiB", Fraction),
            ("99999999999999999999", TooLarge),
            ("18446744073709551615K", TooLarge),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back_as_the_same_size(number: u64, shift in 0_u32..50) {
            let size = ByteSize(number >> (shift / 2) << (shift % 25));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,40}|[0-9.]{0,30} ?[kmgtKMGTiIbB]{0,4}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
