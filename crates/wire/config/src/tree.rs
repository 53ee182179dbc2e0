//! The one tree that every format is parsed into, and that remembers where each value stands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Who said something about the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A configuration file, or a document handed over under a name.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A `--set` flag, by its key path.
    Flag(String),
    /// The program itself: nothing was configured.
    Program(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", printable(&path.to_string_lossy(), usize::MAX)),
            Self::Environment(name) => write!(f, "environment {}", printable(name, 128)),
            Self::Flag(key) => write!(f, "--set {}", printable(key, 128)),
            Self::Program(name) => write!(f, "{name}"),
        }
    }
}

/// Where a value stands: its source and, in a file, its line and, where documents are read one by one, its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Who said it.
    pub source: Arc<Source>,
    /// The line in a file, from 1.
    pub line: Option<u32>,
    /// The column in the line, in characters from 1. Layers of a configuration leave it out.
    pub column: Option<u32>,
}

impl Origin {
    pub(crate) fn whole(source: &Arc<Source>) -> Self {
        Self {
            source: Arc::clone(source),
            line: None,
            column: None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let places = self.line.into_iter().chain(self.column);
        for place in places {
            write!(f, ":{place}")?;
        }
        Ok(())
    }
}

/// One value of the tree. Private to the crate: it may hold secrets, so nothing outside prints it.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    /// What the environment or a flag says: its type is whatever the reader wants.
    Text(String),
    List(Vec<Node>),
    Table(Table),
}

/// How a key was written, which decides what it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// From a document that is read by itself: a key is what it is.
    Exact,
    /// From a file: upper and lower case are the same.
    Written,
    /// From the environment or a flag: `_` is ignored as well, so `POLL_PERIOD` is `pollPeriod`.
    Loose,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) spelling: Spelling,
    /// Where the key itself stands, in a document that is read by itself.
    pub(crate) key_at: Option<Origin>,
    pub(crate) node: Node,
}

/// The entries of an object, by the key in lower case, or by the key where it is exact.
#[derive(Clone, Default)]
pub(crate) struct Table {
    entries: BTreeMap<String, Entry>,
    /// Some key is spelled loosely, so that finding one may need to look at them all.
    has_loose: bool,
    /// Replaces what lower layers say instead of merging with it: a layer in between was `null` or
    /// not a table. Without this mark, layering would depend on which two layers are merged first.
    pub(crate) fresh: bool,
}

impl Table {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut()
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.entries.into_values()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry, or hands its key back because one has it already.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<(), String> {
        if self.find(&entry.key, entry.spelling).is_some() {
            return Err(entry.key);
        }
        self.has_loose |= entry.spelling == Spelling::Loose;
        let stored = match entry.spelling {
            Spelling::Exact => entry.key.clone(),
            Spelling::Written | Spelling::Loose => entry.key.to_ascii_lowercase(),
        };
        self.entries.insert(stored, entry);
        Ok(())
    }

    /// The stored key that `key` means.
    fn find(&self, key: &str, spelling: Spelling) -> Option<String> {
        if spelling == Spelling::Exact {
            return self.entries.contains_key(key).then(|| key.to_owned());
        }
        let lower = key.to_ascii_lowercase();
        if self.entries.contains_key(&lower) {
            return Some(lower);
        }
        if spelling == Spelling::Written && !self.has_loose {
            return None;
        }
        let squeezed = squeeze(key);
        self.entries
            .iter()
            .find(|(_, entry)| {
                (spelling == Spelling::Loose || entry.spelling == Spelling::Loose)
                    && squeeze(&entry.key) == squeezed
            })
            .map(|(stored, _)| stored.clone())
    }

    pub(crate) fn get_mut(&mut self, key: &str, spelling: Spelling) -> Option<&mut Entry> {
        let stored = self.find(key, spelling)?;
        self.entries.get_mut(&stored)
    }
}

impl Entry {
    /// Whether this entry's key means the field `name`.
    pub(crate) fn means(&self, name: &str) -> bool {
        self.key.eq_ignore_ascii_case(name)
            || (self.spelling == Spelling::Loose && squeeze(&self.key) == squeeze(name))
    }
}

fn squeeze(key: &str) -> String {
    key.chars()
        .filter(|c| *c != '_')
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Text that fits one line of a message: control characters escaped, at most `limit` characters.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            out.push('…');
            break;
        }
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The key path of `key` inside `parent`.
pub(crate) fn join(parent: &str, key: &str) -> String {
    let key = printable(key, 64);
    if parent.is_empty() {
        key
    } else {
        format!("{parent}.{key}")
    }
}
