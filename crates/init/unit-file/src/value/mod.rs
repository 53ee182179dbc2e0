//! The types of directive values.
//!
//! Every type knows how to read itself from the text after `=` through [`Setting::assign`], with
//! systemd's rules for empty values and repeated assignments: lists append and are reset by an empty
//! value, scalars are replaced. Types are plain data; nothing here looks at the machine.

pub mod access;
pub mod command;
pub mod cpuset;
pub mod credential;
pub mod environment;
pub mod exit_status;
pub mod image_policy;
pub mod list;
pub mod network;
pub mod number;
pub mod path;
pub mod rlimit;
pub mod signal;
pub mod words;

use std::borrow::Cow;
use std::sync::Arc;

use thiserror::Error;

use crate::name::{UnitName, UnitNameError};
use crate::specifier::{SpecifierContext, SpecifierError, expand};
use crate::syntax::{WordError, truncate};

/// Why a value, or one element of it, is not usable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The text is not what the directive takes.
    #[error("{text:?} is not {expected}")]
    Invalid {
        /// The text, shortened.
        text: Box<str>,
        /// What is taken instead, with its article.
        expected: Cow<'static, str>,
    },
    /// A number is outside of its range.
    #[error("{text:?} is out of range ({range})")]
    OutOfRange {
        /// The text, shortened.
        text: Box<str>,
        /// What is allowed.
        range: &'static str,
    },
    /// The directive needs a value.
    #[error("the value is empty, {expected} is needed")]
    Empty {
        /// What is needed, with its article.
        expected: &'static str,
    },
    /// The quoting or escaping is broken.
    #[error("the value {text:?} cannot be split into words")]
    Words {
        /// The text, shortened.
        text: Box<str>,
        /// What is wrong.
        #[source]
        source: WordError,
    },
    /// An escape sequence is unknown; it was kept as it stands.
    #[error("unknown escape sequence kept in {text:?}")]
    UnknownEscape {
        /// The text, shortened.
        text: Box<str>,
    },
    /// A specifier cannot be expanded.
    #[error("a specifier in {text:?} cannot be expanded")]
    Specifier {
        /// The text, shortened.
        text: Box<str>,
        /// Which, and why.
        #[source]
        source: SpecifierError,
    },
    /// Not the name of a unit.
    #[error("{text:?} is not a unit name")]
    UnitName {
        /// The text, shortened.
        text: Box<str>,
        /// What is wrong.
        #[source]
        source: UnitNameError,
    },
    /// The value was accepted by older versions only.
    #[error("{what} is obsolete")]
    Obsolete {
        /// What, and what to write instead.
        what: &'static str,
    },
}

impl ValueError {
    pub(crate) fn invalid(text: &str, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid {
            text: truncate(text).into(),
            expected: expected.into(),
        }
    }

    pub(crate) fn range(text: &str, range: &'static str) -> Self {
        Self::OutOfRange {
            text: truncate(text).into(),
            range,
        }
    }

    pub(crate) fn words(text: &str, source: WordError) -> Self {
        Self::Words {
            text: truncate(text).into(),
            source,
        }
    }

    /// The message with the messages of its causes.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// What became of an assignment that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignError {
    /// It is ignored, the unit is usable without it.
    Ignored(ValueError),
    /// The unit must not be used: running it without this would do something else than asked.
    Fatal(ValueError),
}

impl From<ValueError> for AssignError {
    fn from(error: ValueError) -> Self {
        Self::Ignored(error)
    }
}

/// What values need to know about where they stand, and what they found.
#[derive(Debug)]
pub struct ValueContext<'a> {
    /// For specifiers.
    pub specifiers: SpecifierContext<'a>,
    /// Shared unit names.
    pub names: &'a mut Names,
    /// Elements of lists that were left out; the list itself is used.
    pub warnings: Vec<ValueError>,
}

impl ValueContext<'_> {
    /// Expands specifiers.
    ///
    /// # Errors
    /// A fact is missing or the result is too long.
    pub fn expand<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, ValueError> {
        expand(text, self.specifiers).map_err(|source| ValueError::Specifier {
            text: truncate(text).into(),
            source,
        })
    }

    /// Expands specifiers and checks that a unit name comes out. A template stands for its instance
    /// for this unit.
    ///
    /// # Errors
    /// It does not.
    pub fn unit_name(&mut self, text: &str) -> Result<UnitName, ValueError> {
        let text = self.expand(text)?;
        let failed = |source| ValueError::UnitName {
            text: truncate(&text).into(),
            source,
        };
        let name = self.names.unit(&text).map_err(failed)?;
        if !name.is_template() {
            return Ok(name);
        }
        let instance =
            crate::load::resolve_template(&name, self.specifiers.unit).map_err(failed)?;
        self.names.unit(instance.as_str()).map_err(failed)
    }

    /// Reports an element that is left out.
    pub fn warn(&mut self, error: ValueError) {
        // More than any list of diagnostics keeps; those that are left out there are counted there.
        const MAX_WARNINGS: usize = 1000;
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(error);
        }
    }
}

/// Unit names that are shared between units: thousands of units name the same few targets.
#[derive(Debug, Default)]
pub struct Names {
    known: std::collections::HashSet<Arc<str>>,
}

impl Names {
    /// The shared name.
    ///
    /// # Errors
    /// The text is not a unit name.
    pub fn unit(&mut self, text: &str) -> Result<UnitName, UnitNameError> {
        if let Some(known) = self.known.get(text) {
            return UnitName::from_shared(known.clone());
        }
        let name = UnitName::new(text)?;
        self.known.insert(name.as_shared().clone());
        Ok(name)
    }

    /// Forgets the names that nothing else holds any more.
    pub fn release_unused(&mut self) {
        self.known.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// A value that a directive can be assigned to.
pub trait Setting {
    /// What the value is, for the table of directives.
    const KIND: &'static str;

    /// Takes the text after `=`.
    ///
    /// # Errors
    /// The text is not usable; the value is unchanged.
    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError>;
}

/// Implements [`Setting`] for a scalar by a function from text to value.
macro_rules! scalar_setting {
    ($type:ty, $kind:literal, $parse:expr) => {
        impl $crate::value::Setting for $type {
            const KIND: &'static str = $kind;

            fn assign(
                &mut self,
                text: &str,
                _: &mut $crate::value::ValueContext<'_>,
            ) -> Result<(), $crate::value::AssignError> {
                *self = $parse(text)?;
                Ok(())
            }
        }
    };
}
pub(crate) use scalar_setting;

/// An enumeration whose values are words.
macro_rules! word_enum {
    ($(#[$meta:meta])* $name:ident, $kind:literal $(+ $boolean:ident)?, $first:ident = $first_text:literal $(| $first_also:literal)*
        $(, $variant:ident = $text:literal $(| $also:literal)*)* $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            #[doc = concat!("`", $first_text, "`")]
            #[default]
            $first,
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl $name {
            /// The word that stands for the value in unit files.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_text,
                    $(Self::$variant => $text,)*
                }
            }

            /// The value that a word stands for.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $first_text $(| $first_also)* => Some(Self::$first),
                    $($text $(| $also)* => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// All words, for messages.
            pub const WORDS: &'static str = concat!($first_text $(, ", ", $text)*);
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::value::scalar_setting!($name, $kind, |text: &str| {
            $(let text = $boolean(text);)?
            $name::from_word(text).ok_or_else(|| {
                let expected = concat!("one of: ", $first_text $(, ", ", $text)*);
                $crate::value::ValueError::invalid(text, expected)
            })
        });
    };
}
pub(crate) use word_enum;

/// The words `yes` and `no` for every way to write them; for enumerations that grew out of a boolean.
pub(crate) fn boolean_word(text: &str) -> &str {
    match number::parse_boolean(text) {
        Ok(true) => "yes",
        Ok(false) => "no",
        Err(_) => text,
    }
}

/// A setting that is unset until assigned; an empty value unsets it again.
impl<T: Setting + Default> Setting for Option<T> {
    const KIND: &'static str = T::KIND;

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = None;
            return Ok(());
        }
        let mut value = T::default();
        value.assign(text, context)?;
        *self = Some(value);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Assigning values in tests.

    use super::{AssignError, Names, Setting, ValueContext};
    use crate::name::UnitName;
    use crate::specifier::{HostFacts, SpecifierContext};

    /// Assigns texts one after the other; gives the errors and warnings as texts.
    pub(crate) fn assign<T: Setting>(value: &mut T, texts: &[&str]) -> Vec<String> {
        let (host, mut names) = (HostFacts::default(), Names::default());
        let unit = UnitName::new("a-b@c.service").unwrap();
        let specifiers = SpecifierContext {
            host: &host,
            unit: &unit,
            fragment: None,
        };
        let mut context = ValueContext {
            specifiers,
            names: &mut names,
            warnings: Vec::new(),
        };
        let mut problems = Vec::new();
        for text in texts {
            match value.assign(text, &mut context) {
                Ok(()) => {}
                Err(AssignError::Ignored(error)) => problems.push(error.chain()),
                Err(AssignError::Fatal(error)) => {
                    problems.push(format!("fatal: {}", error.chain()))
                }
            }
            problems.extend(context.warnings.drain(..).map(|error| error.chain()));
        }
        problems
    }

    /// Assigns texts of which none may cause a problem.
    pub(crate) fn read<T: Setting + Default>(texts: &[&str]) -> T {
        let mut value = T::default();
        assert_eq!(assign(&mut value, texts), Vec::<String>::new(), "{texts:?}");
        value
    }
}
