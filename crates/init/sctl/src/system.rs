//! Which system a command is about.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use muster_unit_file::fs::RealFs;
use muster_unit_file::install::{InstallPaths, Installer, glob};
use muster_unit_file::load::{Loader, SearchPath, UnitIndex};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::specifier::HostFacts;
use muster_units::{Host, facts};
use thiserror::Error;

use crate::cli::Common;
use crate::console::Console;
use crate::host;
use crate::names::{self, NameError, is_pattern};

/// The running system, or one below a folder.
#[derive(Debug)]
pub(crate) struct System {
    fs: RealFs,
    /// What stands before every path of the system, empty for the running one.
    prefix: String,
    facts: HostFacts,
    quiet: bool,
}

/// Why a system cannot be worked on.
#[derive(Debug, Error)]
pub(crate) enum SystemError {
    /// `--root=` cannot be made absolute.
    #[error("Failed to make path '{root}' absolute")]
    Root {
        /// What was given.
        root: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// `--root=` names no folder.
    #[error("Failed to open root folder '{root}'")]
    NoFolder {
        /// What was given.
        root: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A path where a name is expected.
    #[error("Failed to {verb}: '{text}' is a path, not the name of a unit.")]
    IsPath {
        /// What was to be done.
        verb: &'static str,
        /// What was given.
        text: String,
    },
    /// A name on the command line.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl System {
    /// The system that the options name.
    ///
    /// # Errors
    /// `--root=` is not a folder.
    pub(crate) fn open(common: &Common) -> Result<Self, SystemError> {
        let root = common.root.as_deref().filter(|root| !root.is_empty());
        let path = match root {
            None => PathBuf::from("/"),
            Some(root) => absolute(root)?,
        };
        if let Some(root) = root {
            let failed = |source| SystemError::NoFolder {
                root: root.to_owned(),
                source,
            };
            std::fs::read_dir(&path).map_err(failed)?;
        }
        let prefix = if path == Path::new("/") {
            String::new()
        } else {
            path.to_string_lossy().into_owned()
        };
        let fs = RealFs::with_root(path);
        let facts = host::facts(&fs, prefix.is_empty());
        Ok(Self {
            fs,
            prefix,
            facts,
            quiet: common.quiet,
        })
    }

    /// Its files.
    pub(crate) fn fs(&self) -> &RealFs {
        &self.fs
    }

    /// Whether `--root=` was given.
    pub(crate) fn is_offline(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Whether people want to hear what is done.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// A path of the system as this machine knows it.
    pub(crate) fn outside(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Plans changes of links.
    pub(crate) fn installer(&self) -> Installer<'_, RealFs> {
        Installer::new(&self.fs, InstallPaths::default(), self.facts.clone())
    }

    /// Loads units.
    pub(crate) fn loader(&self) -> Loader<RealFs> {
        self.loader_with(SearchPath::system())
    }

    /// Loads units from these folders.
    pub(crate) fn loader_with(&self, path: SearchPath) -> Loader<RealFs> {
        Loader::new(self.fs.clone(), path, self.facts.clone())
    }

    /// What units get from the machine. Below a folder there is no running kernel to ask.
    pub(crate) fn machine(&self) -> Host {
        let running = !self.is_offline();
        Host {
            specifiers: self.facts.clone(),
            zone: TimeZone::system(),
            memory: if running { host::memory() } else { u64::MAX },
            tasks: if running {
                facts::tasks(&self.fs)
            } else {
                u64::MAX
            },
            ..Host::default()
        }
    }

    /// The units that words on the command line mean, patterns among them.
    ///
    /// # Errors
    /// A word that is not a pattern cannot mean any.
    pub(crate) fn units_by_pattern(
        &self,
        texts: &[String],
        index: &UnitIndex,
        console: &mut Console,
    ) -> Result<Vec<UnitName>, SystemError> {
        let mut found = Vec::new();
        for text in texts {
            if is_pattern(text) {
                // Patterns are for units; a template is none yet.
                let fits = |name: &&UnitName| glob(text, name.as_str()) && !name.is_template();
                found.extend(index.names().filter(fits).cloned());
            } else {
                found.push(self.unit(text, console)?);
            }
        }
        Ok(found)
    }

    /// The unit that a word on the command line means.
    ///
    /// # Errors
    /// It cannot mean any.
    pub(crate) fn unit(&self, text: &str, console: &mut Console) -> Result<UnitName, SystemError> {
        Ok(names::unit(text, UnitType::Service, self.quiet, console)?)
    }

    /// The unit that a word means to a verb that takes names, not paths and patterns.
    ///
    /// # Errors
    /// It is a path, or cannot mean any unit.
    pub(crate) fn plain_unit(
        &self,
        text: &str,
        verb: &'static str,
        console: &mut Console,
    ) -> Result<UnitName, SystemError> {
        if text.contains('/') {
            return Err(SystemError::IsPath {
                verb,
                text: text.to_owned(),
            });
        }
        if is_pattern(text) && !self.quiet {
            console.note(format_args!(
                "Glob pattern passed to {verb}, but globs are not supported for this."
            ));
        }
        self.unit(text, console)
    }

    /// The same for many words.
    ///
    /// # Errors
    /// One is a path, or cannot mean any unit.
    pub(crate) fn plain_units(
        &self,
        texts: &[String],
        verb: &'static str,
        console: &mut Console,
    ) -> Result<Vec<UnitName>, SystemError> {
        texts
            .iter()
            .map(|text| self.plain_unit(text, verb, console))
            .collect()
    }
}

/// An absolute path without doubled slashes and dots.
fn absolute(root: &str) -> Result<PathBuf, SystemError> {
    let path = std::path::absolute(root).map_err(|source| SystemError::Root {
        root: root.to_owned(),
        source,
    })?;
    Ok(path.components().collect())
}
