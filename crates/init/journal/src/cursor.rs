//! Cursors: names of entries that stay valid across files, restarts and machines.

use std::fmt;
use std::str::FromStr;

use crate::format::Id128;

/// The name of an entry, in systemd's text form `s=..;i=..;b=..;m=..;t=..;x=..`.
///
/// Parts may be missing; what is there must lead to a place: a sequence number with its source, a
/// monotonic time with its boot, or a wall clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The source of the sequence number.
    pub seqnum_id: Option<Id128>,
    /// The sequence number.
    pub seqnum: Option<u64>,
    /// The boot in which the entry was written.
    pub boot_id: Option<Id128>,
    /// Microseconds since that boot.
    pub monotonic: Option<u64>,
    /// Microseconds since 1970.
    pub realtime: Option<u64>,
    /// The checksum of the entry's values.
    pub xor_hash: Option<u64>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |key: char, value: Option<String>| match value {
            Some(value) => {
                let result = write!(f, "{separator}{key}={value}");
                separator = ";";
                result
            }
            None => Ok(()),
        };
        part('s', self.seqnum_id.map(|id| id.to_string()))?;
        part('i', self.seqnum.map(|n| format!("{n:x}")))?;
        part('b', self.boot_id.map(|id| id.to_string()))?;
        part('m', self.monotonic.map(|n| format!("{n:x}")))?;
        part('t', self.realtime.map(|n| format!("{n:x}")))?;
        part('x', self.xor_hash.map(|n| format!("{n:x}")))
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseCursorError {
    /// A part is not `letter=value`.
    #[error("cursor part {part:?} is not of the form letter=value")]
    Part {
        /// The part.
        part: String,
    },
    /// A part's value is neither an id nor a hexadecimal number, as its letter asks for.
    #[error("cursor part {part:?} has a value that cannot be read")]
    Value {
        /// The part.
        part: String,
    },
    /// Nothing in the cursor leads to a place.
    #[error("cursor names no place: it needs s= and i=, or b= and m=, or t=")]
    NoPlace,
}

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let mut cursor = Self::default();
        for part in text.trim().split(';').filter(|part| !part.is_empty()) {
            let wrong = || ParseCursorError::Value {
                part: part.to_owned(),
            };
            let id = |value: &str| value.parse::<Id128>().map(Some).map_err(|_| wrong());
            let number = |value: &str| {
                u64::from_str_radix(value, 16)
                    .map(Some)
                    .map_err(|_| wrong())
            };
            match part.split_once('=') {
                Some(("s", value)) => cursor.seqnum_id = id(value)?,
                Some(("i", value)) => cursor.seqnum = number(value)?,
                Some(("b", value)) => cursor.boot_id = id(value)?,
                Some(("m", value)) => cursor.monotonic = number(value)?,
                Some(("t", value)) => cursor.realtime = number(value)?,
                Some(("x", value)) => cursor.xor_hash = number(value)?,
                // Later versions may say more about an entry; what is known suffices to find it.
                Some((key, _)) if key.len() == 1 => {}
                _ => {
                    return Err(ParseCursorError::Part {
                        part: part.to_owned(),
                    });
                }
            }
        }
        let by_seqnum = cursor.seqnum_id.is_some() && cursor.seqnum.is_some();
        let by_boot = cursor.boot_id.is_some() && cursor.monotonic.is_some();
        if by_seqnum || by_boot || cursor.realtime.is_some() {
            Ok(cursor)
        } else {
            Err(ParseCursorError::NoPlace)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "s=739ad463348b4ceca5a9e69c95a3c93f;i=4ece7;b=6c7c6013a26343b29e964691ff25d04c;\
                        m=4fc72436e;t=4c508a72423d9;x=d3e5610681098c10";

    #[test]
    fn systemds_text_form_round_trips() {
        let cursor: Cursor = TEXT.parse().expect("cursor");
        assert_eq!(cursor.seqnum, Some(0x4ece7));
        assert_eq!(cursor.to_string(), TEXT);
    }

    #[test]
    fn parts_may_be_missing_but_not_all_places() {
        assert_eq!("t=10".parse::<Cursor>().map(|c| c.realtime), Ok(Some(16)));
        assert_eq!("i=10;x=1".parse::<Cursor>(), Err(ParseCursorError::NoPlace));
        assert_eq!("".parse::<Cursor>(), Err(ParseCursorError::NoPlace));
        assert!("t=1;y=unknown".parse::<Cursor>().is_ok());
    }

    #[test]
    fn senseless_parts_are_named() {
        let part = "t=xyz".to_owned();
        assert_eq!(
            "t=xyz".parse::<Cursor>(),
            Err(ParseCursorError::Value { part })
        );
        let part = "nonsense".to_owned();
        assert_eq!(
            "t=1;nonsense".parse::<Cursor>(),
            Err(ParseCursorError::Part { part })
        );
    }
}
