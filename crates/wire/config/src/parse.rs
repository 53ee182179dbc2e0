//! From the bytes of one document to a tree, bounded in size, depth and number of values.

mod json;
mod lines;
mod toml;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use crate::problem::Problem;
use crate::tree::{Entry, Node, Origin, Source, Spelling, Table, Value, join};

pub(crate) use json::parse_json_value;

/// The syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON (RFC 8259).
    Json,
    /// TOML 1.1.
    Toml,
    /// YAML 1.2, one document per file, without merge keys.
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

/// Parses a document whose top must be a table. An empty document is an empty table.
pub(crate) fn parse(
    source: &Arc<Source>,
    format: Format,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Node, Vec<Problem>> {
    let builder = Builder { source, limits };
    let fault = |fault: Fault| vec![builder.problem(fault)];
    if bytes.len() > limits.file_bytes {
        return Err(fault(Fault::whole(format!(
            "is larger than {} bytes, the most that is read",
            limits.file_bytes
        ))));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        fault(Fault::at(line, "is not UTF-8 text"))
    })?;
    let node = if text.trim().is_empty() {
        Node {
            value: Value::Null,
            origin: Origin::whole(source),
        }
    } else {
        match format {
            Format::Json => json::parse_json(&builder, text),
            Format::Toml => toml::parse_toml(&builder, text),
            Format::Yaml => yaml::parse_yaml(&builder, text),
        }
        .map_err(fault)?
    };
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

/// Why a document could not be turned into a tree.
#[derive(Debug)]
struct Fault {
    line: Option<u32>,
    key: String,
    message: String,
}

impl Fault {
    fn whole(message: impl Into<String>) -> Self {
        Self {
            line: None,
            key: String::new(),
            message: message.into(),
        }
    }

    fn at(line: usize, message: impl Into<String>) -> Self {
        Self {
            line: u32::try_from(line).ok(),
            ..Self::whole(message)
        }
    }
}

/// What the three parsers share: the source, the limits, and how a table is filled.
struct Builder<'a> {
    source: &'a Arc<Source>,
    limits: &'a Limits,
}

impl Builder<'_> {
    fn problem(&self, fault: Fault) -> Problem {
        let origin = Origin {
            source: Arc::clone(self.source),
            line: fault.line,
        };
        Problem {
            origin,
            key: fault.key,
            message: fault.message,
        }
    }

    fn node(&self, line: usize, value: Value) -> Node {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Node {
            value,
            origin: Origin::at_line(self.source, line),
        }
    }

    /// Adds `key` to `table`, which stands at the key path `path`.
    fn insert(&self, table: &mut Table, path: &str, key: String, node: Node) -> Result<(), Fault> {
        let line = node.origin.line;
        let entry = Entry {
            key,
            spelling: Spelling::Written,
            node,
        };
        table.insert(entry).map_err(|twice| Fault {
            line,
            key: join(path, &twice.key),
            message: "is given twice in this table (upper and lower case are the same)".to_owned(),
        })
    }

    /// Counts one value at `depth`.
    fn count(&self, nodes: &mut usize, depth: usize, line: usize) -> Result<(), Fault> {
        *nodes += 1;
        if *nodes > self.limits.nodes {
            let message = format!(
                "more than {} values, the most that is read",
                self.limits.nodes
            );
            return Err(Fault::at(line, message));
        }
        let deepest = self.limits.depth.min(MAX_DEPTH);
        if depth > deepest {
            let message = format!("nested deeper than {deepest} tables and lists");
            return Err(Fault::at(line, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
