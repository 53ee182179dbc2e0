//! What is wrong with a configuration, in words for the person who has to mend it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::load::Setting;
use crate::tree::{Origin, Source, join, printable};

/// One thing that is wrong: where, which key, what. Its `Display` is one line without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub origin: Origin,
    /// The key path from the top, such as `monitoring.pollPeriod`; empty for the whole document.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.origin, self.message)
        } else {
            write!(f, "{}: {}: {}", self.origin, self.key, self.message)
        }
    }
}

/// Why a configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read the configuration file {}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The drop-in folder could not be listed.
    #[error("cannot list the drop-in folder {}", path.display())]
    ListDropIns {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What was read is not a valid configuration; one line per problem.
    #[error("the configuration of {program} is not valid:{}", lines(problems))]
    Invalid {
        /// The program it is for.
        program: String,
        /// Everything found, at least one.
        problems: Vec<Problem>,
    },
}

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("\n{problem}"))
        .collect()
}

/// Collects what [`Validate`](crate::Validate) finds, and knows where each key came from.
#[derive(Debug)]
pub struct Problems<'a> {
    program: &'a str,
    settings: &'a BTreeMap<String, Setting>,
    prefix: String,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(program: &'a str, settings: &'a BTreeMap<String, Setting>) -> Self {
        Self {
            program,
            settings,
            prefix: String::new(),
            found: Vec::new(),
        }
    }

    pub(crate) fn into_found(self) -> Vec<Problem> {
        self.found
    }

    /// Reports that `key`, a path such as `monitoring.pollPeriod` below the current section, is
    /// wrong. `message` goes on from the value: "must be at least 1s".
    pub fn report(&mut self, key: &str, message: impl fmt::Display) {
        let key = join(&self.prefix, key);
        let message = printable(&message.to_string(), 512);
        let problem = match self.settings.get(&key) {
            Some(setting) => Problem {
                origin: setting.origin.clone(),
                message: format!("`{}` {message}", setting.value),
                key,
            },
            None => Problem {
                origin: Origin::whole(&Arc::new(Source::Program(self.program.to_owned()))),
                message,
                key,
            },
        };
        self.found.push(problem);
    }

    /// Runs `check` with key paths below `section`.
    pub fn within<R>(&mut self, section: &str, check: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.prefix.clone();
        self.prefix = join(&outer, section);
        let result = check(self);
        self.prefix = outer;
        result
    }

    /// Whether nothing was reported so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
