//! Why a wire message or a text was refused, and where in the message the reason lies.

use std::fmt;

use thiserror::Error;

/// A value of a message that breaks a rule of the domain.
///
/// Displays as `InstanceInfo.instance.item_id: missing`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct ConvertError {
    path: FieldPath,
    problem: Problem,
}

impl ConvertError {
    /// A field of `message` broke a rule.
    pub(crate) fn new(message: &'static str, field: &'static str, problem: Problem) -> Self {
        Self {
            path: FieldPath::new(message, field),
            problem,
        }
    }

    /// The error as seen from `message`, which holds the failed message in `field`.
    pub(crate) fn within(mut self, message: &'static str, field: &'static str) -> Self {
        self.path.message = message;
        self.path.steps.push(Step::Field(field));
        self
    }

    /// Like [`Self::within`], for the `index`-th element of a list.
    pub(crate) fn within_item(
        mut self,
        message: &'static str,
        field: &'static str,
        index: usize,
    ) -> Self {
        self.path.steps.push(Step::Index(index));
        self.within(message, field)
    }

    /// Where the value stands.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// Which rule it breaks.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// A text or number that is no value of the domain type it was meant for.
///
/// What the types' own constructors fail with; inside a message it becomes a [`ConvertError`].
/// Displays as `node id: "a/b" holds the forbidden character '/'`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {problem}")]
pub struct InvalidValue {
    what: &'static str,
    problem: Problem,
}

impl InvalidValue {
    pub(crate) fn new(what: &'static str, problem: Problem) -> Self {
        Self { what, problem }
    }

    /// What the value was meant to be, for example `node id`.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Which rule it breaks.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The error as one of a message's field.
    pub(crate) fn at(self, message: &'static str, field: &'static str) -> ConvertError {
        ConvertError::new(message, field, self.problem)
    }

    /// Like [`Self::at`], for the `index`-th element of a list.
    pub(crate) fn at_item(
        self,
        message: &'static str,
        field: &'static str,
        index: usize,
    ) -> ConvertError {
        let steps = vec![Step::Index(index), Step::Field(field)];
        ConvertError {
            path: FieldPath { message, steps },
            problem: self.problem,
        }
    }
}

/// A rule that was broken. Values from outside are quoted shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A message or text that must be there is not.
    Missing,
    /// The text is longer than the limit, in bytes.
    TooLong {
        /// Start of the text.
        value: Excerpt,
        /// How long it is.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The text holds a character that it must not hold.
    ForbiddenCharacter {
        /// Start of the text.
        value: Excerpt,
        /// The first such character.
        character: char,
    },
    /// The text is well formed but means something else, such as `..` as the name of a file.
    Reserved {
        /// The text.
        value: Excerpt,
    },
    /// The text is not of the expected form.
    Malformed {
        /// Start of the text.
        value: Excerpt,
        /// The form, for people.
        expected: &'static str,
    },
    /// The text or number is none of the known ones.
    Unknown {
        /// Start of the text, or the number.
        value: Excerpt,
        /// The known ones, for people.
        expected: &'static str,
    },
    /// The number lies outside its range, or is no number at all.
    OutOfRange {
        /// The number.
        value: Excerpt,
        /// The range, for people.
        expected: &'static str,
    },
    /// Two elements of a list have the same name.
    Duplicate {
        /// The name.
        value: Excerpt,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "missing"),
            Self::TooLong {
                value,
                length,
                limit,
            } => {
                write!(f, "{value} has {length} bytes, the limit is {limit}")
            }
            Self::ForbiddenCharacter { value, character } => {
                write!(f, "{value} holds the forbidden character {character:?}")
            }
            Self::Reserved { value } => write!(f, "{value} is a reserved name"),
            Self::Malformed { value, expected } => write!(f, "{value} is not {expected}"),
            Self::Unknown { value, expected } => write!(f, "{value} is none of {expected}"),
            Self::OutOfRange { value, expected } => write!(f, "{value} is not {expected}"),
            Self::Duplicate { value } => write!(f, "{value} stands twice"),
        }
    }
}

/// Where a value stands in a message: `NodeInfo.cpus[2].arch_info.architecture`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    message: &'static str,
    /// From the value outwards, so that each enclosing message can push its own step.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Field(&'static str),
    Index(usize),
}

impl FieldPath {
    fn new(message: &'static str, field: &'static str) -> Self {
        Self {
            message,
            steps: vec![Step::Field(field)],
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)?;
        self.steps.iter().rev().try_for_each(|step| match step {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        })
    }
}

/// The start of a value from outside, short enough for a log line.
///
/// Displays quoted and escaped, so it cannot forge a second line or a terminal sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    start: Box<str>,
    is_cut: bool,
}

impl Excerpt {
    const MAX_CHARS: usize = 48;

    pub(crate) fn new(value: &str) -> Self {
        match value.char_indices().nth(Self::MAX_CHARS) {
            Some((end, _)) => Self {
                start: value[..end].into(),
                is_cut: true,
            },
            None => Self {
                start: value.into(),
                is_cut: false,
            },
        }
    }

    pub(crate) fn number(value: impl ToString) -> Self {
        Self {
            start: value.to_string().into(),
            is_cut: false,
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}{}",
            self.start,
            if self.is_cut { "..." } else { "" }
        )
    }
}

/// Converts a sub-message that must be there.
pub(crate) fn required<W, D>(
    message: &'static str,
    field: &'static str,
    wire: Option<W>,
) -> Result<D, ConvertError>
where
    D: TryFrom<W, Error = ConvertError>,
{
    let wire = wire.ok_or_else(|| ConvertError::new(message, field, Problem::Missing))?;
    D::try_from(wire).map_err(|error| error.within(message, field))
}

/// Converts a sub-message that may be absent.
pub(crate) fn optional<W, D>(
    message: &'static str,
    field: &'static str,
    wire: Option<W>,
) -> Result<Option<D>, ConvertError>
where
    D: TryFrom<W, Error = ConvertError>,
{
    wire.map(|wire| D::try_from(wire).map_err(|error| error.within(message, field)))
        .transpose()
}

/// Converts every element of a list.
pub(crate) fn each<W, D>(
    message: &'static str,
    field: &'static str,
    wire: Vec<W>,
) -> Result<Vec<D>, ConvertError>
where
    D: TryFrom<W, Error = ConvertError>,
{
    wire.into_iter()
        .enumerate()
        .map(|(index, item)| {
            D::try_from(item).map_err(|error| error.within_item(message, field, index))
        })
        .collect()
}

/// Parses a text that must be there.
pub(crate) fn text<D>(
    message: &'static str,
    field: &'static str,
    wire: &str,
) -> Result<D, ConvertError>
where
    D: std::str::FromStr<Err = InvalidValue>,
{
    wire.parse()
        .map_err(|error: InvalidValue| error.at(message, field))
}

/// Parses a text that is empty when it is absent.
pub(crate) fn optional_text<D>(
    message: &'static str,
    field: &'static str,
    wire: &str,
) -> Result<Option<D>, ConvertError>
where
    D: std::str::FromStr<Err = InvalidValue>,
{
    if wire.is_empty() {
        Ok(None)
    } else {
        text(message, field, wire).map(Some)
    }
}

/// The wire form of a text that may be absent.
pub(crate) fn optional_to_text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_from_the_outside_in() {
        let error = ConvertError::new("ArchInfo", "architecture", Problem::Missing)
            .within("CPUInfo", "arch_info")
            .within_item("NodeInfo", "cpus", 2);
        assert_eq!(
            error.to_string(),
            "NodeInfo.cpus[2].arch_info.architecture: missing"
        );
    }

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        let hostile = format!("a\n\u{1b}[31m{}", "é".repeat(5000));
        let shown = Excerpt::new(&hostile).to_string();
        assert!(
            shown.chars().count() < 70 && shown.ends_with("..."),
            "{shown}"
        );
        assert!(shown.chars().all(|c| !c.is_control()), "{shown}");
    }
}
