//! What serde says went wrong, kept in parts until the value it is about is known.

use std::fmt::{self, Display};

use serde::de::{Error, Expected, Unexpected};

use super::nearest;
use crate::problem::Problem;
use crate::redact::{REDACTED, show};
use crate::tree::{Node, Origin, Value};

/// The value an error is about.
#[derive(Debug)]
struct Site {
    path: String,
    origin: Origin,
    shown: String,
    secret: bool,
    /// The value is a number or a boolean, which needs quotes to be a string.
    unquoted: bool,
    /// The value came as a flag or an environment variable.
    text: bool,
}

#[derive(Debug)]
enum Kind {
    Unfit(String),
    UnknownVariant(&'static [&'static str]),
    Missing(&'static str),
    Custom(String),
}

#[derive(Debug)]
pub(crate) struct ReadError {
    kind: Kind,
    site: Option<Box<Site>>,
}

impl ReadError {
    fn new(kind: Kind) -> Self {
        Self { kind, site: None }
    }

    pub(super) fn unfit(expected: impl Into<String>) -> Self {
        Self::new(Kind::Unfit(expected.into()))
    }

    /// Notes the value the error is about, unless an inner value has already been noted.
    pub(super) fn at(mut self, node: &Node, path: &str, secret: bool) -> Self {
        if self.site.is_none() {
            self.site = Some(Box::new(Site {
                path: path.to_owned(),
                origin: node.origin.clone(),
                shown: show(node, secret),
                secret,
                unquoted: matches!(
                    node.value,
                    Value::Integer(_) | Value::Float(_) | Value::Bool(_)
                ),
                text: matches!(node.value, Value::Text(_)),
            }));
        }
        self
    }

    /// The problem, and the name of the key if it is one that is missing.
    pub(super) fn into_problem(self, root: &Node) -> (Problem, Option<&'static str>) {
        let site = self.site.map_or_else(
            || Site {
                path: String::new(),
                origin: root.origin.clone(),
                shown: show(root, false),
                secret: false,
                unquoted: false,
                text: false,
            },
            |site| *site,
        );
        let mut missing = None;
        let shown = &site.shown;
        let message = match self.kind {
            Kind::Unfit(expected) => {
                let quotes = if site.unquoted && expected == "a string" {
                    " (put it in quotes)"
                } else if site.text && matches!(expected.as_str(), "a list" | "a table") {
                    " (write it as JSON)"
                } else {
                    ""
                };
                format!("`{shown}` is not {expected}{quotes}")
            }
            Kind::UnknownVariant(known) => {
                let near = nearest(shown, known).filter(|_| !site.secret);
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                format!("`{shown}` is not one of {}{near}", known.join(", "))
            }
            Kind::Missing(field) => {
                missing = Some(field);
                format!("the required key `{field}` is missing")
            }
            // The text may quote the value, so it is shown only where the value may be.
            Kind::Custom(_) if site.secret => format!("`{REDACTED}` is not valid"),
            Kind::Custom(text) => format!("`{shown}` is not valid: {text}"),
        };
        // A missing key of the whole document has no line of its own.
        let line = site.origin.line.filter(|_| !site.path.is_empty());
        let origin = Origin {
            line,
            ..site.origin
        };
        (
            Problem {
                origin,
                key: site.path,
                message,
            },
            missing,
        )
    }
}

/// Serde's words for what it wants, in the words of the person who writes the file.
fn in_plain_words(expected: &str) -> String {
    let range = |low: i128, high: u128| format!("an integer from {low} to {high}");
    match expected {
        "i8" => range(i8::MIN.into(), 0x7f),
        "i16" => range(i16::MIN.into(), 0x7fff),
        "i32" => range(i32::MIN.into(), 0x7fff_ffff),
        "i64" | "isize" => range(i64::MIN.into(), 0x7fff_ffff_ffff_ffff),
        "u8" => range(0, u8::MAX.into()),
        "u16" => range(0, u16::MAX.into()),
        "u32" => range(0, u32::MAX.into()),
        "u64" | "usize" => range(0, u64::MAX.into()),
        "f32" | "f64" => "a number".to_owned(),
        "a map" => "a table".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("a nonzero ") => {
            format!(
                "{} other than 0",
                in_plain_words(&other["a nonzero ".len()..])
            )
        }
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.starts_with("tuple ") => "a list".to_owned(),
        other if other.starts_with("a tuple of size ") => {
            other.replace("a tuple of size", "a list of")
        }
        other => other.to_owned(),
    }
}

impl Error for ReadError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(Kind::Custom(message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::unfit(in_plain_words(&expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::unfit(in_plain_words(&expected.to_string()))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::unfit(in_plain_words(&expected.to_string()))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownVariant(expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Kind::Missing(field))
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration does not fit")
    }
}

impl std::error::Error for ReadError {}
