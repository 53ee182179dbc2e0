//! Names that end up in rule sets, and therefore must not be able to say anything else.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not {expected}")]
pub struct InvalidName {
    name: String,
    expected: &'static str,
}

/// Whose rules these are: the instance's id, which is also CNI's container id.
///
/// It stands in comments of rules, and its hash in the names of chains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(String);

impl InstanceId {
    const EXPECTED: &'static str =
        "an instance id: 1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit";

    /// Checks an id.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidName> {
        let id = id.into();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let fits = (1..=64).contains(&id.len())
            && id.bytes().all(word)
            && id.as_bytes()[0].is_ascii_alphanumeric();
        if fits {
            Ok(Self(id))
        } else {
            Err(InvalidName::new(&id, Self::EXPECTED))
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// 16 characters that stand for this id in the names of chains, which are short in iptables.
    pub(crate) fn tag(&self) -> String {
        hex::encode(&Sha256::digest(&self.0)[..8])
    }
}

impl FromStr for InstanceId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl From<muster_api::domain::Uuid> for InstanceId {
    fn from(id: muster_api::domain::Uuid) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A network link, such as a bridge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(String);

impl LinkName {
    const EXPECTED: &'static str =
        "the name of a link: 1 to 15 letters, digits, '-', '_' or '.', the first a letter or digit";

    /// Checks a name. Characters that the kernel would take but that mean something in rule sets are refused.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        let name = name.into();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let fits = (1..=15).contains(&name.len())
            && name.bytes().all(word)
            && name.as_bytes()[0].is_ascii_alphanumeric();
        if fits {
            Ok(Self(name))
        } else {
            Err(InvalidName::new(&name, Self::EXPECTED))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl InvalidName {
    fn new(name: &str, expected: &'static str) -> Self {
        // Whatever it is, a log line is no place for all of it.
        let name = name.chars().take(80).collect();
        Self { name, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_carry_syntax() {
        for bad in ["", "a b", "a;b", "a\nb", "\"", "-j", ".", "{", "ä"] {
            assert!(InstanceId::new(bad).is_err(), "took {bad:?} for an id");
            assert!(LinkName::new(bad).is_err(), "took {bad:?} for a link");
        }
        assert!(InstanceId::new("a".repeat(65)).is_err());
        assert!(LinkName::new("a".repeat(16)).is_err());
        assert!(LinkName::new("br-0123456789ab").is_ok());
    }

    #[test]
    fn tags_are_short_and_differ() {
        let (a, b) = (InstanceId::new("a").unwrap(), InstanceId::new("b").unwrap());
        assert_eq!(a.tag().len(), 16);
        assert_ne!(a.tag(), b.tag());
    }
}
