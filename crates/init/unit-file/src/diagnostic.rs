//! What is wrong with a file, and where: nothing that a file says is dropped in silence.

use std::fmt;
use std::sync::Arc;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the meaning of the file is unchanged.
    Note,
    /// Something in the file was ignored.
    Warning,
    /// The unit cannot be used as it stands.
    Error,
}

/// What kind of anomaly a diagnostic reports, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// The bytes are not a unit file: not UTF-8, a bad section header, a line without `=`.
    Syntax,
    /// A section that units of this type do not have.
    UnknownSection,
    /// A directive that its section does not have.
    UnknownDirective,
    /// The value does not parse.
    BadValue,
    /// The directive is understood, but Muster does not act on it (yet).
    NotApplied,
    /// The directive was renamed or dropped by systemd.
    Obsolete,
    /// A file, link or folder cannot be used.
    File,
    /// The unit as a whole makes no sense (no `ExecStart=`, wrong mount point ...).
    Unit,
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// What kind it is.
    pub problem: Problem,
    /// The file it is in.
    pub file: Arc<str>,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// What is wrong.
    pub message: Box<str>,
    /// What to do about it.
    pub hint: Option<Box<str>>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.message)?;
        } else {
            write!(f, "{}:{}: {}", self.file, self.line, self.message)?;
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// At most so many diagnostics are kept per collection; the rest are counted.
pub const MAX_KEPT: usize = 200;

/// A bounded list of diagnostics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    dropped: usize,
}

impl Diagnostics {
    /// Adds one, or only counts it if the list is full.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.kept.push(diagnostic);
        }
    }

    /// Adds everything of another collection.
    pub fn append(&mut self, other: Diagnostics) {
        self.dropped += other.dropped;
        for diagnostic in other.kept {
            self.push(diagnostic);
        }
    }

    /// The kept ones, in the order of their discovery.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// Whether further ones are only counted; then there is no use in wording them well.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kept.len() >= MAX_KEPT
    }

    /// How many did not fit.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// How many there were of one kind, among the kept ones.
    #[must_use]
    pub fn count(&self, problem: Problem) -> usize {
        self.kept.iter().filter(|d| d.problem == problem).count()
    }

    /// Whether nothing at all was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.dropped == 0
    }

    /// Gives memory for further diagnostics back.
    pub fn shrink(&mut self) {
        self.kept.shrink_to_fit();
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
