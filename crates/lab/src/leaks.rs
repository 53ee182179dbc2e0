//! What a test must not leave behind.
//!
//! A [`Snapshot`] is taken before, and [`Snapshot::assert_unchanged`] called after. Other tests run on
//! the same machine at the same time, so only what can be told to be the test's own is compared:
//!
//! | what | compared |
//! |---|---|
//! | processes | descendants of the test process, and whatever [`program`](crate::program) has started |
//! | mounts | in a mount namespace of the test's own all; else those in watched folders |
//! | links, packet filter | in a network namespace of the test's own |
//! | loop devices | those whose file is in a watched folder |
//! | control groups | directories below watched groups |
//! | files | everything in watched folders |
//!
//! [`Watch::machine_wide`] adds all mounts, links, rules and loop devices of the machine, for a test
//! that runs alone. A namespace is the test's own when whoever started the test process is not in it; it
//! is the calling thread's that counts. A test that compares begins with [`alone!`](crate::alone!), so
//! that other tests are no threads of its process.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::ToolError;
use crate::try_poll_for;

mod scan;

/// Why the state of the machine could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LeakError {
    /// A file or folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// A watched folder holds more than is compared.
    #[error("{} holds more than {limit} files", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// How many are compared.
        limit: usize,
    },
    /// The packet filter could not be listed.
    #[error("cannot list the packet filter's rules")]
    Rules(#[source] ToolError),
}

/// What a snapshot covers; [`Watch::own`] is the least.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    folders: Vec<PathBuf>,
    cgroups: Vec<PathBuf>,
    machine_wide: bool,
}

impl Watch {
    /// What is the test's own without further notice: its processes, and all in its own namespaces.
    pub fn own() -> Self {
        Self::default()
    }

    /// Adds the files of a folder, the mounts in it, and loop devices on its files.
    #[must_use]
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folders.push(folder.as_ref().to_owned());
        self
    }

    /// Adds the groups below a directory of a control group tree. It need not exist.
    #[must_use]
    pub fn cgroups(mut self, directory: impl AsRef<Path>) -> Self {
        self.cgroups.push(directory.as_ref().to_owned());
        self
    }

    /// Adds all mounts, links, rules and loop devices of the machine: only for a test that runs alone.
    #[must_use]
    pub fn machine_wide(mut self) -> Self {
        self.machine_wide = true;
        self
    }

    /// Takes the snapshot.
    pub fn take(self) -> Result<Snapshot, LeakError> {
        let facts = scan::facts(&self)?;
        Ok(Snapshot { watch: self, facts })
    }
}

/// The state of what is watched, at one moment.
#[derive(Debug)]
pub struct Snapshot {
    watch: Watch,
    facts: BTreeSet<String>,
}

/// What has changed since a snapshot; empty when nothing has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// What is there now and was not then.
    pub appeared: Vec<String>,
    /// What was there then and is not now.
    pub vanished: Vec<String>,
}

impl Snapshot {
    /// A snapshot of [`Watch::own`].
    pub fn take() -> Result<Self, LeakError> {
        Watch::own().take()
    }

    /// What has changed since.
    pub fn changes(&self) -> Result<Changes, LeakError> {
        let now = scan::facts(&self.watch)?;
        Ok(Changes {
            appeared: now.difference(&self.facts).cloned().collect(),
            vanished: self.facts.difference(&now).cloned().collect(),
        })
    }

    /// Waits until everything is as it was.
    ///
    /// # Panics
    /// Panics with the difference when it still is not after that time, or when the state cannot be
    /// read.
    #[track_caller]
    pub fn assert_unchanged(&self, within: Duration) {
        let mut latest = Changes::default();
        let unchanged = try_poll_for(within, || {
            latest = self
                .changes()
                .unwrap_or_else(|error| panic!("{error}: {error:?}"));
            latest.is_empty().then_some(())
        });
        assert!(
            unchanged.is_some(),
            "not as before within {within:?}:\n{latest}"
        );
    }
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.vanished.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fact in &self.appeared {
            writeln!(formatter, "  + {fact}")?;
        }
        for fact in &self.vanished {
            writeln!(formatter, "  - {fact}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
