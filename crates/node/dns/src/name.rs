//! Domain names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The longest name, with the length of each label and the end.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a domain name: labels of 1 to 63 letters, digits, '-' or '_', 253 characters in all"
)]
pub struct InvalidName {
    text: String,
}

/// A domain name, in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// As on the wire: each label after its length, and the end. Never compressed.
    wire: Box<[u8]>,
}

impl Name {
    /// Reads a name off the front of a question, where no compression is allowed. Answers it and its length.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut end = 0;
        loop {
            let length = usize::from(*bytes.get(end)?);
            if length > MAX_LABEL {
                return None;
            }
            end += 1 + length;
            if end > MAX_NAME {
                return None;
            }
            if length == 0 {
                break;
            }
        }
        let wire = bytes.get(..end)?.to_ascii_lowercase();
        Some((Self { wire: wire.into() }, end))
    }

    /// The name under which an address's own name is asked for.
    pub fn reverse(address: IpAddr) -> Self {
        let text = match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            IpAddr::V6(address) => {
                let nibbles = address
                    .octets()
                    .into_iter()
                    .rev()
                    .map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
                nibbles.collect::<String>() + "ip6.arpa"
            }
        };
        Self::from_labels(text.split('.'))
    }

    /// The address whose own name is asked for, if this is such a question.
    pub(crate) fn reversed(&self) -> Option<IpAddr> {
        let text = self.to_string();
        if let Some(rest) = text.strip_suffix(".in-addr.arpa") {
            let mut octets = [0; 4];
            let mut labels = rest.split('.');
            for octet in octets.iter_mut().rev() {
                *octet = labels.next()?.parse().ok()?;
            }
            return labels.next().is_none().then(|| octets.into());
        }
        let rest = text.strip_suffix(".ip6.arpa")?;
        let mut octets = [0u8; 16];
        let mut labels = rest.split('.');
        for octet in octets.iter_mut().rev() {
            let mut nibble = || match labels.next()?.as_bytes() {
                [digit] => u8::try_from(char::from(*digit).to_digit(16)?).ok(),
                _ => None,
            };
            *octet = nibble()? | nibble()? << 4;
        }
        labels.next().is_none().then(|| octets.into())
    }

    /// The labels must be valid.
    fn from_labels<'a>(labels: impl Iterator<Item = &'a str>) -> Self {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(u8::try_from(label.len()).unwrap_or_default());
            wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        wire.push(0);
        Self { wire: wire.into() }
    }

    /// Whether this is `zone`, or below it.
    pub fn is_within(&self, zone: &Self) -> bool {
        let mut rest = &*self.wire;
        loop {
            if rest == &*zone.wire {
                return true;
            }
            match rest.split_first() {
                Some((length, labels)) if *length > 0 => {
                    rest = labels.get(usize::from(*length)..).unwrap_or_default();
                }
                _ => return false,
            }
        }
    }

    /// Whether it has one label only.
    pub(crate) fn is_single(&self) -> bool {
        self.wire
            .first()
            .is_some_and(|length| *length > 0 && usize::from(*length) + 2 == self.wire.len())
    }

    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire
    }

    fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.wire;
        std::iter::from_fn(move || {
            let (length, labels) = rest.split_first()?;
            let (label, after) = labels.split_at_checked(usize::from(*length))?;
            rest = after;
            (!label.is_empty()).then_some(label)
        })
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let dotless = text.strip_suffix('.').unwrap_or(text);
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(word);
        if dotless.len() > MAX_NAME - 2 || !dotless.split('.').all(fits) {
            let text = text.chars().take(80).collect();
            return Err(InvalidName { text });
        }
        Ok(Self::from_labels(dotless.split('.')))
    }
}

/// Bytes that are not letters, digits, `-` or `_` are shown as `?`; they come from strangers, and go to logs.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        for label in self.labels() {
            f.write_str(dot)?;
            for byte in label {
                let plain = byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                write!(f, "{}", if plain { char::from(*byte) } else { '?' })?;
            }
            dot = ".";
        }
        if dot.is_empty() {
            f.write_str(".")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_lower_case_and_have_one_form() {
        assert_eq!(name("Web.Cameras.").to_string(), "web.cameras");
        assert_eq!(name("web").wire(), b"\x03web\0");
        for bad in ["", ".", "a..b", "a b", "a\0b", ".a", "*.a", "ä"] {
            assert!(bad.parse::<Name>().is_err(), "took {bad:?}");
        }
        assert!("a".repeat(63).parse::<Name>().is_ok());
        assert!("a".repeat(64).parse::<Name>().is_err());
        let long = vec!["a".repeat(49); 5].join(".");
        assert!(format!("{long}.abc").parse::<Name>().is_ok());
        assert!(format!("{long}.abcd").parse::<Name>().is_err());
    }

    #[test]
    fn zones_end_at_labels() {
        let zone = name("cameras.local");
        assert!(name("cameras.local").is_within(&zone));
        assert!(name("web.cameras.local").is_within(&zone));
        assert!(!name("xcameras.local").is_within(&zone));
        assert!(!name("local").is_within(&zone));
        assert!(name("web").is_single() && !name("web.x").is_single());
    }

    #[test]
    fn hostile_names_are_refused() {
        assert!(Name::read(b"").is_none());
        assert!(Name::read(b"\x03we").is_none());
        assert!(
            Name::read(b"\xc0\x0c").is_none(),
            "compression in a question"
        );
        assert!(Name::read(&[1; 300]).is_none(), "longer than a name");
        let (odd, length) = Name::read(b"\x04a.\n\"\0").unwrap();
        assert_eq!((odd.to_string().as_str(), length), ("a???", 6));
        assert_eq!(Name::read(b"\0").unwrap().0.to_string(), ".");
    }

    proptest! {
        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some((name, length)) = Name::read(&bytes) {
                prop_assert_eq!(name.wire().len(), length);
                let _ = (name.to_string(), name.reversed(), name.is_single());
            }
        }

        #[test]
        fn addresses_survive_their_reverse(v4 in any::<[u8; 4]>(), v6 in any::<[u8; 16]>()) {
            for address in [IpAddr::from(v4), IpAddr::from(v6)] {
                prop_assert_eq!(Name::reverse(address).reversed(), Some(address));
            }
        }
    }
}
