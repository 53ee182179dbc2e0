//! From the bytes of one document to a tree, bounded in size, depth and number of values.

mod json;
mod lines;
mod toml;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use crate::problem::Problem;
use lines::Lines;

use crate::tree::{Entry, Node, Origin, Source, Spelling, Table, Value, join};

pub(crate) use json::parse_json_value;

/// The syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON (RFC 8259).
    Json,
    /// TOML 1.1.
    Toml,
    /// YAML 1.2, without merge keys. A layer of a configuration is one document.
    Yaml,
}

impl Format {
    /// The format that a file's extension stands for.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            // AosCore names its JSON configuration `.cfg`.
            "json" | "cfg" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// How much configuration is read before it is refused.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Tables and lists inside each other. The stack bounds what can be set here: at most 64.
    pub depth: usize,
    /// Values of one document, aliases counted each time they are used.
    pub nodes: usize,
    /// Files in the drop-in folder.
    pub drop_ins: usize,
}

/// The deepest nesting that any limit allows.
pub(crate) const MAX_DEPTH: usize = 64;

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 1 << 20,
            depth: MAX_DEPTH,
            nodes: 1 << 16,
            drop_ins: 256,
        }
    }
}

/// What a text is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// One layer of a configuration: one document, keys without regard to case, places by line.
    Layer,
    /// Documents for themselves: any number of them, keys as they are, places by line and column.
    Documents,
}

/// Parses a document whose top must be a table. An empty document is an empty table.
pub(crate) fn parse(
    source: &Arc<Source>,
    format: Format,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Node, Vec<Problem>> {
    let builder = Builder {
        source,
        limits,
        reading: Reading::Layer,
    };
    let fault = |fault: Fault| vec![builder.problem(fault)];
    let mut documents = parse_text(&builder, format, bytes).map_err(fault)?;
    let node = documents.pop().unwrap_or(Node {
        value: Value::Null,
        origin: Origin::whole(source),
    });
    match node.value {
        Value::Table(_) => Ok(node),
        Value::Null => Ok(Node {
            value: Value::Table(Table::default()),
            origin: Origin::whole(source),
        }),
        _ => Err(fault(Fault {
            line: node.origin.line,
            ..Fault::whole("the document must be a table of keys and values")
        })),
    }
}

/// Parses all documents of a text; each may be any value.
pub(crate) fn parse_documents(
    source: &Arc<Source>,
    format: Format,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Vec<Node>, Problem> {
    let builder = Builder {
        source,
        limits,
        reading: Reading::Documents,
    };
    parse_text(&builder, format, bytes).map_err(|fault| builder.problem(fault))
}

/// The documents of a text: none when it is empty.
fn parse_text(builder: &Builder<'_>, format: Format, bytes: &[u8]) -> Result<Vec<Node>, Fault> {
    let limits = builder.limits;
    if bytes.len() > limits.file_bytes {
        return Err(Fault::whole(format!(
            "is larger than {} bytes, the most that is read",
            limits.file_bytes
        )));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        Fault::at(Lines::new(&valid).mark(valid.len()), "is not UTF-8 text")
    })?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match format {
        Format::Json => Ok(vec![json::parse_json(builder, text)?]),
        Format::Toml => Ok(vec![toml::parse_toml(builder, text)?]),
        Format::Yaml => yaml::parse_yaml(builder, text),
    }
}

/// A place in a text, from 1.
#[derive(Debug, Clone, Copy)]
struct Mark {
    line: usize,
    /// In characters.
    column: usize,
}

impl Mark {
    const START: Self = Self { line: 1, column: 1 };
}

/// Why a document could not be turned into a tree.
#[derive(Debug)]
struct Fault {
    line: Option<u32>,
    column: Option<u32>,
    /// The parser could not go on here, so that the column says more than the key.
    stopped: bool,
    key: String,
    message: String,
}

impl Fault {
    fn whole(message: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            stopped: false,
            key: String::new(),
            message: message.into(),
        }
    }

    fn at(mark: Mark, message: impl Into<String>) -> Self {
        Self {
            line: u32::try_from(mark.line).ok(),
            column: u32::try_from(mark.column).ok(),
            ..Self::whole(message)
        }
    }

    /// The text is not of its format from here on.
    fn stopped(mark: Mark, message: impl Into<String>) -> Self {
        Self {
            stopped: true,
            ..Self::at(mark, message)
        }
    }
}

/// What the three parsers share: the source, the limits, what is read, and how a table is filled.
struct Builder<'a> {
    source: &'a Arc<Source>,
    limits: &'a Limits,
    reading: Reading,
}

impl Builder<'_> {
    fn problem(&self, fault: Fault) -> Problem {
        let in_words = self.reading == Reading::Layer && fault.stopped;
        let message = match fault.column.filter(|_| in_words) {
            Some(column) => format!("column {column}: {}", fault.message),
            None => fault.message,
        };
        let column = fault.column.filter(|_| self.reading == Reading::Documents);
        Problem {
            origin: Origin {
                source: Arc::clone(self.source),
                line: fault.line,
                column,
            },
            key: fault.key,
            message,
        }
    }

    fn origin(&self, mark: Mark) -> Origin {
        let column = match self.reading {
            Reading::Layer => None,
            Reading::Documents => u32::try_from(mark.column).ok(),
        };
        Origin {
            source: Arc::clone(self.source),
            line: Some(u32::try_from(mark.line).unwrap_or(u32::MAX)),
            column,
        }
    }

    fn node(&self, mark: Mark, value: Value) -> Node {
        Node {
            value,
            origin: self.origin(mark),
        }
    }

    /// Adds `key` to `table`, which stands at the key path `path`.
    fn insert(
        &self,
        table: &mut Table,
        path: &str,
        (key, mark): (String, Mark),
        mut node: Node,
    ) -> Result<(), Fault> {
        let key_at = self.origin(mark);
        let (entry, twice) = match self.reading {
            Reading::Layer => {
                node.origin = key_at;
                let entry = Entry {
                    key,
                    spelling: Spelling::Written,
                    key_at: None,
                    node,
                };
                let twice = "is given twice in this table (upper and lower case are the same)";
                (entry, twice)
            }
            Reading::Documents => {
                let entry = Entry {
                    key,
                    spelling: Spelling::Exact,
                    key_at: Some(key_at),
                    node,
                };
                (entry, "is given twice in this table")
            }
        };
        table.insert(entry).map_err(|key| Fault {
            key: join(path, &key),
            ..Fault::at(mark, twice)
        })
    }

    /// Counts one value at `depth`.
    fn count(&self, nodes: &mut usize, depth: usize, mark: Mark) -> Result<(), Fault> {
        *nodes += 1;
        if *nodes > self.limits.nodes {
            let message = format!(
                "more than {} values, the most that is read",
                self.limits.nodes
            );
            return Err(Fault::at(mark, message));
        }
        let deepest = self.limits.depth.min(MAX_DEPTH);
        if depth > deepest {
            let message = format!("nested deeper than {deepest} tables and lists");
            return Err(Fault::at(mark, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
