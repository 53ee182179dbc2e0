//! Names of templates.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// Longest name, in bytes: machines are called after their templates, and a host name's label has no more.
const LONGEST: usize = 63;

/// The name of a template: ASCII letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TemplateName(String);

impl TemplateName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for TemplateName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for TemplateName {
    type Err = BadTemplateName;

    fn from_str(text: &str) -> Result<Self, BadTemplateName> {
        let first = text.bytes().next().ok_or(BadTemplateName::Empty)?;
        if text.len() > LONGEST {
            return Err(BadTemplateName::TooLong);
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !first.is_ascii_alphanumeric() || !text.bytes().all(plain) {
            return Err(BadTemplateName::Letters);
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for TemplateName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a text is no name of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplateName {
    /// There is none.
    #[error("a template's name must not be empty")]
    Empty,
    /// It is too long.
    #[error("a template's name has at most {LONGEST} characters")]
    TooLong,
    /// It holds what a name cannot hold.
    #[error(
        "a template's name consists of ASCII letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"
    )]
    Letters,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_of_plain_letters() {
        let longest = "a".repeat(LONGEST);
        for good in ["ubuntu-worker-small", "0", "A.b_c", &longest] {
            assert_eq!(
                good.parse::<TemplateName>().map(|it| it.0),
                Ok(good.to_owned())
            );
        }
        let too_long = "a".repeat(LONGEST + 1);
        for (bad, why) in [
            ("", BadTemplateName::Empty),
            (&*too_long, BadTemplateName::TooLong),
            ("-a", BadTemplateName::Letters),
            ("a b", BadTemplateName::Letters),
            ("a/../b", BadTemplateName::Letters),
            ("ä", BadTemplateName::Letters),
            ("a\n", BadTemplateName::Letters),
        ] {
            assert_eq!(bad.parse::<TemplateName>(), Err(why), "{bad}");
        }
    }
}
