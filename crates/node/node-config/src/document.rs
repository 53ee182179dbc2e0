//! The parser: a document in, values or every problem out.

use std::fmt;

use muster_config::{ConfigError, Format, Limits, Load, Problem};
use semver::Version;

use crate::config::NodeConfig;
use crate::raw::RawDocument;

/// Problems that an error names; the others are counted.
const NAMED: usize = 8;

/// A document that is valid in itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its version, if it has one.
    pub version: Option<Version>,
    /// The node that it is for, if it says so.
    pub node: Option<String>,
    /// The kind of nodes that it is for, if it says so.
    pub node_type: Option<String>,
    /// What it says.
    pub config: NodeConfig,
    /// Paths of keys that are not known, at most 32.
    pub unknown: Vec<String>,
}

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// Where: `alertRules.cpu.minThreshold`; empty for the whole document.
    pub path: String,
    /// The line, where that is known.
    pub line: Option<u32>,
    /// What is wrong, beginning with the value.
    pub message: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), self.line) {
            ("", Some(line)) => write!(f, "line {line}: {}", self.message),
            ("", None) => f.write_str(&self.message),
            (path, _) => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Why a document is not a node configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node configuration is not valid: {}", listed(problems))]
pub struct InvalidNodeConfig {
    /// Everything that was found, at least one.
    pub problems: Vec<FieldProblem>,
}

fn listed(problems: &[FieldProblem]) -> String {
    let named: Vec<String> = problems
        .iter()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    let more = match problems.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", named.join("; "))
}

impl Document {
    /// Reads a document. `limits` bounds its size, depth and number of values.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its path.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, InvalidNodeConfig> {
        // For a daemon, a file with nothing in it is an empty configuration; from a controller it is a mistake.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            let nothing = FieldProblem {
                path: String::new(),
                line: None,
                message: "it must be a JSON object".to_owned(),
            };
            return Err(InvalidNodeConfig {
                problems: vec![nothing],
            });
        }
        let load = Load::<RawDocument>::new("node configuration")
            .document("node configuration", Format::Json, bytes)
            .limits(*limits);
        load.load()
            .and_then(|loaded| loaded.validate())
            .map_err(|error| InvalidNodeConfig {
                problems: problems_of(error),
            })
    }
}

fn problems_of(error: ConfigError) -> Vec<FieldProblem> {
    let field = |problem: Problem| FieldProblem {
        path: problem.key,
        line: problem.origin.line,
        message: problem.message,
    };
    match error {
        ConfigError::Invalid { problems, .. } => problems.into_iter().map(field).collect(),
        // The other variants are about files, and none is read.
        other => vec![FieldProblem {
            path: String::new(),
            line: None,
            message: other.to_string(),
        }],
    }
}

#[cfg(test)]
mod tests;
