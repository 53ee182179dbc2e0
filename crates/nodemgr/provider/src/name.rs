//! The names that machines, managers and providers' resources go by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a name may be long, in bytes.
const MAX_NAME: usize = 255;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {rule}")]
pub struct InvalidName {
    /// The text, cut to what can be shown.
    pub text: String,
    /// What it was to be.
    pub what: &'static str,
    /// What such a name looks like.
    pub rule: &'static str,
}

/// A text of a bounded length that holds to a rule, checked when it is made.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $rule:literal, $valid:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Box<str>);

        impl $type {
            /// Checks a text.
            ///
            /// # Errors
            #[doc = concat!("When it does not hold to the rule: ", $rule, ".")]
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                let fits = !text.is_empty() && text.len() <= MAX_NAME && text.chars().all($valid);
                fits.then(|| Self(text.into())).ok_or_else(|| InvalidName {
                    text: text.chars().take(MAX_NAME).collect(),
                    what: $what,
                    rule: $rule,
                })
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(&text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.into()
            }
        }
    };
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
}

fn is_visible(letter: char) -> bool {
    letter.is_ascii_graphic()
}

name! {
    /// Our name of a machine, such as `m-0f3a91c2d4e5b678`. Never used twice.
    MachineId, "a machine's id", "it has lower-case letters, digits and dashes", is_plain
}
name! {
    /// Which manager a machine belongs to. Two managers may use the same provider without touching each other's machines.
    ManagerId, "a manager's id", "it has lower-case letters, digits and dashes", is_plain
}
name! {
    /// Makes an order idempotent: a provider makes one machine for it, however often it is asked.
    ClientToken, "a client token", "it has lower-case letters, digits and dashes", is_plain
}
name! {
    /// The provider's own name of a machine: an instance id, a container id, a domain's uuid.
    ResourceId, "a provider's id of a machine", "it has visible ASCII characters", is_visible
}

name! {
    /// Who has machines, behind a provider's name: an engine, an account in a region, a host. It tells two of them apart, no more.
    Home, "a provider's home", "it has visible ASCII characters", is_visible
}

impl MachineId {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("m-{:016x}", rand::random::<u64>()).into())
    }
}

impl ManagerId {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("muster-{:016x}", rand::random::<u64>()).into())
    }
}

impl ClientToken {
    /// A new one, of 32 digits: EC2 allows 64.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_bounded() {
        assert!(MachineId::new("m-01").is_ok());
        for wrong in ["", "M", "a b", "ä", &"a".repeat(256)] {
            assert!(MachineId::new(wrong).is_err(), "{wrong}");
        }
        assert!(ResourceId::new("i-0123/abc:DEF").is_ok());
        assert!(ResourceId::new("a\nb").is_err());
        let refused = serde_json::from_str::<MachineId>("\"a b\"").unwrap_err();
        assert!(refused.to_string().contains("is not a machine's id"));
    }

    #[test]
    fn what_is_drawn_is_a_valid_name() {
        assert!(MachineId::new(MachineId::random().as_str()).is_ok());
        assert!(ManagerId::new(ManagerId::random().as_str()).is_ok());
        assert!(ClientToken::random().as_str().len() <= 64);
    }
}
