//! Why descriptions of machines could not be read, or a template not be found.

use std::io;
use std::path::PathBuf;

use muster_config::Problem;

use crate::findings::{Findings, lines};

/// Why descriptions of machines, templates or mappings, could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder could not be listed.
    #[error("cannot list the folder {}", path.display())]
    ListFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What was read describes no machine; one line per problem.
    #[error("what is written about machines is not valid:{}", lines(problems))]
    Invalid {
        /// Everything found.
        problems: Vec<Problem>,
    },
}

impl DescriptionError {
    /// # Errors
    /// What was found, where something was.
    pub fn unless_empty(findings: Findings) -> Result<(), Self> {
        match findings.is_empty() {
            true => Ok(()),
            false => Err(Self::Invalid {
                problems: findings.into_problems(),
            }),
        }
    }
}

/// A template that is not in the set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no template `{name}`{}", self.hint())]
pub struct UnknownTemplate {
    /// What was asked for.
    pub name: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
    /// How many templates there are.
    pub known: usize,
}

impl UnknownTemplate {
    fn hint(&self) -> String {
        match (&self.suggestion, self.known) {
            (Some(name), _) => format!("; did you mean `{name}`?"),
            (None, 0) => ": no templates are loaded".to_owned(),
            (None, known) => format!(" among the {known} that are loaded"),
        }
    }
}
