//! What a mapping compares a field with.

use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use muster_config::{nearest, printable};

/// Longest pattern, in bytes: what it compiles to grows with it.
const LONGEST: usize = 512;

/// How patterns of a mapping are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatchType {
    /// The field is the same text.
    #[default]
    Exact,
    /// `*` stands for any text (`/` and `:` too), `?` for one character, `[a-z]` for one of several, `{a,b}` for either; `\` takes
    /// the meaning from what follows.
    Glob,
}

impl FromStr for MatchType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Self::Exact),
            "glob" => Ok(Self::Glob),
            _ => {
                let near = nearest(text, &["exact", "glob"]);
                let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
                let text = printable(text, 40);
                Err(format!("`{text}` is not one of exact, glob{near}"))
            }
        }
    }
}

/// A text, or a glob that is known to be one.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    glob: Option<GlobMatcher>,
}

impl Pattern {
    /// Makes a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str, match_type: MatchType) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a pattern has at most {LONGEST} bytes"));
        }
        let glob = match match_type {
            MatchType::Exact => None,
            MatchType::Glob => {
                let glob = GlobBuilder::new(text)
                    .literal_separator(false)
                    .backslash_escape(true)
                    .empty_alternates(true)
                    .build();
                let glob = glob.map_err(|error| format!("is not a glob: {}", error.kind()))?;
                Some(glob.compile_matcher())
            }
        };
        Ok(Self {
            text: text.to_owned(),
            glob,
        })
    }

    /// Whether a text is what the pattern means.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.is_match(text),
            None => self.text == text,
        }
    }
}

/// As it is written.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.text, 80))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(text: &str) -> Pattern {
        Pattern::new(text, MatchType::Glob).expect(text)
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, matches) in [
            ("ubuntu:24.04", "ubuntu:24.04", true),
            ("ubuntu:*", "ubuntu:24.04", true),
            ("*", "", true),
            ("*ubuntu*", "registry.example/a/ubuntu:24.04", true),
            ("ubuntu:2?.04", "ubuntu:22.04", true),
            ("ubuntu{,:latest}", "ubuntu", true),
            ("eu-{west,central}-[0-9]", "eu-central-1", true),
            ("ubuntu:*", "xubuntu:24.04", false),
            ("ubuntu:*", "Ubuntu:24.04", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
        ] {
            assert_eq!(glob(pattern).matches(text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn what_is_no_glob_is_refused_and_says_why() {
        for text in ["[a", "a{b", "b}", "[z-a]", "a\\"] {
            let message = Pattern::new(text, MatchType::Glob).expect_err(text);
            assert!(message.starts_with("is not a glob: "), "{message}");
            assert!(Pattern::new(text, MatchType::Exact).is_ok());
        }
        assert!(Pattern::new(&"{a,b}".repeat(200), MatchType::Glob).is_err());
        // The largest pattern that is taken.
        glob(&"{a,b}".repeat(102));
    }

    proptest! {
        #[test]
        fn exact_never_matches_more_than_its_escaped_glob(
            pattern in "[ -~é]{0,12}",
            text in "[ -~é]{0,12}",
        ) {
            let exact = Pattern::new(&pattern, MatchType::Exact).expect("short");
            // It leaves the character alone that takes the meaning from others.
            let escaped = glob(&globset::escape(&pattern.replace('\\', r"\\")));
            for text in [&text, &pattern] {
                prop_assert_eq!(exact.matches(text), text == &pattern);
                prop_assert!(!exact.matches(text) || escaped.matches(text));
            }
        }

        #[test]
        fn no_text_makes_a_pattern_panic(pattern in "\\PC{0,40}", text in "\\PC{0,40}") {
            if let Ok(pattern) = Pattern::new(&pattern, MatchType::Glob) {
                let _ = pattern.matches(&text);
            }
        }
    }
}
