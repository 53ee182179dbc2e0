//! A place in a document: it knows its path, and what went wrong there.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use muster_api::domain::InvalidValue;

use crate::Limits;
use crate::tree::Tree;

/// Characters of a value or key that an error shows.
const SHOWN_CHARS: usize = 64;

/// Which document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// An index or a manifest: which of them is what is being found out.
    IndexOrManifest,
    /// An OCI image index or a Docker manifest list.
    Index,
    /// An image manifest.
    Manifest,
    /// An image configuration.
    ImageConfig,
    /// An item configuration.
    ItemConfig,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IndexOrManifest => "index or manifest",
            Self::Index => "index",
            Self::Manifest => "manifest",
            Self::ImageConfig => "image configuration",
            Self::ItemConfig => "item configuration",
        })
    }
}

/// Why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadDocumentError {
    /// It is larger than what is looked at.
    #[error("the {document} has {size} bytes, and at most {limit} are read")]
    TooLarge {
        /// Which document.
        document: DocumentKind,
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// It is not JSON, or breaks a limit of nesting or number; the reason ends with line and column.
    #[error("the {document} is not readable JSON: {reason}")]
    Syntax {
        /// Which document.
        document: DocumentKind,
        /// What is wrong, and where.
        reason: String,
    },
    /// One of its values is wrong.
    #[error("the {document}: {path}: {problem}")]
    Field {
        /// Which document.
        document: DocumentKind,
        /// Where, as `layers[2].digest`; the document itself is `(document)`.
        path: String,
        /// What is wrong.
        problem: FieldProblem,
    },
}

/// What is wrong with a value. Text from the document is shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// It must be there.
    #[error("missing")]
    Missing,
    /// It is there in two spellings.
    #[error("stands there in several spellings")]
    Ambiguous,
    /// It is of another type.
    #[error("is {found}, expected {expected}")]
    WrongType {
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// There are too many.
    #[error("has {count} entries, and at most {limit} are allowed")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// It has the right type and cannot be used all the same.
    #[error("{value} {reason}")]
    Invalid {
        /// The value.
        value: String,
        /// Why not, as the rest of the sentence.
        reason: String,
    },
}

/// A value of a document and its path.
#[derive(Debug, Clone)]
pub(crate) struct At<'t> {
    tree: &'t Tree,
    document: DocumentKind,
    path: String,
}

/// Reads the JSON of a document.
pub(crate) fn parse(
    document: DocumentKind,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Tree, ReadDocumentError> {
    if bytes.len() > limits.document_bytes {
        return Err(ReadDocumentError::TooLarge {
            document,
            size: bytes.len(),
            limit: limits.document_bytes,
        });
    }
    Tree::read(bytes, limits).map_err(|error| ReadDocumentError::Syntax {
        document,
        reason: shown(&error.to_string()),
    })
}

impl<'t> At<'t> {
    pub(crate) fn root(document: DocumentKind, tree: &'t Tree) -> Self {
        Self {
            tree,
            document,
            path: String::new(),
        }
    }

    /// The same place, once it is known what kind of document this is.
    pub(crate) fn as_kind(&self, document: DocumentKind) -> Self {
        Self {
            document,
            ..self.clone()
        }
    }

    pub(crate) fn error(&self, problem: FieldProblem) -> ReadDocumentError {
        let path = match self.path.as_str() {
            "" => "(document)".to_owned(),
            path => path.to_owned(),
        };
        ReadDocumentError::Field {
            document: self.document,
            path,
            problem,
        }
    }

    /// An error about the value here.
    pub(crate) fn invalid(&self, reason: impl fmt::Display) -> ReadDocumentError {
        let value = match self.tree {
            Tree::Text(text) => quoted(text),
            Tree::Unsigned(number) => number.to_string(),
            Tree::Float(number) => number.to_string(),
            other => other.kind().to_owned(),
        };
        self.error(FieldProblem::Invalid {
            value,
            reason: reason.to_string(),
        })
    }

    fn wrong_type(&self, expected: &'static str) -> ReadDocumentError {
        self.error(FieldProblem::WrongType {
            found: self.tree.kind(),
            expected,
        })
    }

    fn child(&self, tree: &'t Tree, step: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            tree,
            document: self.document,
            path: format!("{}{dot}{step}", self.path),
        }
    }

    fn item(&self, index: usize, tree: &'t Tree) -> Self {
        Self {
            tree,
            document: self.document,
            path: format!("{}[{index}]", self.path),
        }
    }

    fn object(&self) -> Result<&'t std::collections::BTreeMap<String, Tree>, ReadDocumentError> {
        match self.tree {
            Tree::Object(fields) => Ok(fields),
            _ => Err(self.wrong_type("an object")),
        }
    }

    /// The field of this name, in any spelling of upper and lower case. `null` is absent.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Self>, ReadDocumentError> {
        let mut spellings = self
            .object()?
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let found = spellings.next().map(|(_, tree)| self.child(tree, name));
        match (&found, spellings.next()) {
            (Some(at), Some(_)) => Err(at.error(FieldProblem::Ambiguous)),
            _ => Ok(found.filter(|at| *at.tree != Tree::Null)),
        }
    }

    /// The field of this name, which must be there.
    pub(crate) fn required(&self, name: &str) -> Result<Self, ReadDocumentError> {
        self.field(name)?
            .ok_or_else(|| self.child(self.tree, name).error(FieldProblem::Missing))
    }

    /// What `read` makes of the field of this name, if it is there.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(Self) -> Result<T, ReadDocumentError>,
    ) -> Result<Option<T>, ReadDocumentError> {
        self.field(name)?.map(read).transpose()
    }

    /// What `read` makes of every entry of the list in the field of this name; none if it is absent.
    pub(crate) fn each<T>(
        &self,
        name: &str,
        mut read: impl FnMut(Self) -> Result<T, ReadDocumentError>,
    ) -> Result<Vec<T>, ReadDocumentError> {
        let Some(at) = self.field(name)? else {
            return Ok(Vec::new());
        };
        let Tree::List(items) = at.tree else {
            return Err(at.wrong_type("a list"));
        };
        let items = items.iter().enumerate();
        items
            .map(|(index, tree)| read(at.item(index, tree)))
            .collect()
    }

    /// What `read` makes of every entry of the object in the field of this name; none if it is absent. Keys are taken as they
    /// are written.
    pub(crate) fn entries<T>(
        &self,
        name: &str,
        read: impl FnMut(&'t str, Self) -> Result<T, ReadDocumentError>,
    ) -> Result<Vec<T>, ReadDocumentError> {
        match self.field(name)? {
            Some(at) => at.all(read),
            None => Ok(Vec::new()),
        }
    }

    /// What `read` makes of every entry of the object here.
    pub(crate) fn all<T>(
        &self,
        mut read: impl FnMut(&'t str, Self) -> Result<T, ReadDocumentError>,
    ) -> Result<Vec<T>, ReadDocumentError> {
        let fields = self.object()?.iter();
        fields
            .map(|(key, tree)| read(key, self.child(tree, &quoted(key))))
            .collect()
    }

    /// Refuses more than `limit` of what was read from the field of this name.
    pub(crate) fn at_most<T>(
        &self,
        name: &str,
        limit: usize,
        items: Vec<T>,
    ) -> Result<Vec<T>, ReadDocumentError> {
        match items.len() {
            count if count > limit => {
                let at = self.child(self.tree, name);
                Err(at.error(FieldProblem::TooMany { count, limit }))
            }
            _ => Ok(items),
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.tree, Tree::Text(_))
    }

    pub(crate) fn text(&self) -> Result<&'t str, ReadDocumentError> {
        match self.tree {
            Tree::Text(text) => Ok(text),
            _ => Err(self.wrong_type("a text")),
        }
    }

    /// A text that a program may get as an argument: without NUL.
    pub(crate) fn word(&self) -> Result<String, ReadDocumentError> {
        let text = self.text()?;
        if text.contains('\0') {
            return Err(self.invalid("holds a NUL"));
        }
        Ok(text.to_owned())
    }

    pub(crate) fn truth(&self) -> Result<bool, ReadDocumentError> {
        match self.tree {
            Tree::Bool(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    /// A whole number, not negative. `1024.0` is one as well: some writers know only floating point.
    pub(crate) fn unsigned(&self) -> Result<u64, ReadDocumentError> {
        /// Up to here every whole number has a floating point form of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self.tree {
            Tree::Unsigned(value) => Ok(*value),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole and in range"
            )]
            Tree::Float(value) if value.fract() == 0.0 && (0.0..=EXACT).contains(value) => {
                Ok(*value as u64)
            }
            Tree::Float(_) => Err(self.invalid("is not a whole number from 0 on")),
            _ => Err(self.wrong_type("a whole number")),
        }
    }

    pub(crate) fn number(&self) -> Result<f64, ReadDocumentError> {
        match self.tree {
            #[expect(
                clippy::cast_precision_loss,
                reason = "where a fraction is allowed, so is its rounding"
            )]
            Tree::Unsigned(value) => Ok(*value as f64),
            Tree::Float(value) => Ok(*value),
            _ => Err(self.wrong_type("a number")),
        }
    }

    /// A text that is a value of the domain.
    pub(crate) fn parse<T: FromStr<Err = InvalidValue>>(&self) -> Result<T, ReadDocumentError> {
        let text = self.text()?;
        text.parse()
            .map_err(|error: InvalidValue| self.invalid(format_args!("is refused ({error})")))
    }

    /// A length of time: `10s`, `1m30s`, `PT1M`.
    pub(crate) fn duration(&self) -> Result<Duration, ReadDocumentError> {
        let parsed: Result<muster_config::Duration, _> = self.text()?.parse();
        let parsed = parsed.map_err(|error| self.invalid(format_args!("is not {error}")))?;
        Ok(parsed.get())
    }
}

fn shown(text: &str) -> String {
    text.chars()
        .take(4 * SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect()
}

/// The start of a text, quoted and escaped.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
