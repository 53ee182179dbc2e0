//! What can go wrong with plugins.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::cache::CacheError;
use crate::result::InvalidResult;

/// What a plugin is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CniCommand {
    /// Put the container into the network.
    Add,
    /// Look whether it still is.
    Check,
    /// Take it out.
    Del,
}

impl fmt::Display for CniCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
        })
    }
}

/// A plugin did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("plugin {plugin}: {command} of container {container} failed")]
pub struct PluginError {
    /// Which plugin.
    pub plugin: String,
    /// What it was asked.
    pub command: CniCommand,
    /// For which container.
    pub container: String,
    /// Why.
    #[source]
    pub fault: PluginFault,
}

/// Why a plugin did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum PluginFault {
    /// No folder has it.
    #[error("no such program in {}", list(folders))]
    NotFound {
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// It cannot be run.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its configuration cannot be handed to it.
    #[error("cannot write its configuration to {}", path.display())]
    Input {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its end cannot be seen or its answer not be read.
    #[error("cannot follow the program")]
    Follow(#[source] io::Error),
    /// An earlier run for the same container, of a caller that is gone, still works.
    #[error("an earlier plugin for the same container has not ended within {limit:?}")]
    Busy {
        /// How long it was waited for.
        limit: Duration,
    },
    /// It did not end in time and was killed.
    #[error("it did not end within {limit:?} and was killed")]
    Hang {
        /// How long it had.
        limit: Duration,
    },
    /// It wrote more than an answer can be long, and was killed.
    #[error("it wrote more than {limit} bytes and was killed")]
    TooMuch {
        /// The most that is read.
        limit: usize,
    },
    /// It said no.
    #[error("it says {message:?} (code {code}){}", details(more))]
    Refused {
        /// The error code; below 100 it is one of the specification's.
        code: u64,
        /// Its reason.
        message: String,
        /// What it adds.
        more: String,
    },
    /// It failed without a reason that can be read.
    #[error("it ended with {status}{}", details(said))]
    Died {
        /// How.
        status: ExitStatus,
        /// The end of what it wrote.
        said: String,
    },
    /// It ended well and answered nothing that can be used.
    #[error("it ended well without a proper answer")]
    Garbage(#[source] InvalidResult),
}

fn list(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
    names.join(", ")
}

fn details(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// Why a container was not put into a network. Whatever was done is undone, or can be by `del`.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// A plugin failed.
    #[error("cannot put container {container} into network {network}")]
    Plugin {
        /// The container.
        container: String,
        /// The network's name.
        network: String,
        /// Which plugin, and why.
        #[source]
        source: PluginError,
    },
    /// What is done could not be written down, so it is not done.
    #[error("cannot put container {container} into network {network}")]
    Cache {
        /// The container.
        container: String,
        /// The network's name.
        network: String,
        /// Which file.
        #[source]
        source: CacheError,
    },
}

/// Why a container's place in a network is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Nobody has put it in.
    #[error("container {container} was never put into a network as a whole")]
    NotAdded {
        /// The container.
        container: String,
    },
    /// A plugin finds fault.
    #[error("container {container} is not in its network as it should be")]
    Plugin {
        /// The container.
        container: String,
        /// Which plugin, and why.
        #[source]
        source: PluginError,
    },
    /// What was done cannot be read.
    #[error("cannot look after container {container}")]
    Cache {
        /// The container.
        container: String,
        /// Which file.
        #[source]
        source: CacheError,
    },
}

/// Why a container is not all out of its network. It can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum DelError {
    /// Plugins failed; the others have done theirs.
    #[error("{failed} of {all} plugins could not take container {container} out of its network")]
    Plugins {
        /// The container.
        container: String,
        /// How many failed.
        failed: usize,
        /// How many there are.
        all: usize,
        /// The first failure.
        #[source]
        first: Box<PluginError>,
    },
    /// What was done cannot be read, or not be forgotten.
    #[error("cannot take container {container} out of its network")]
    Cache {
        /// The container.
        container: String,
        /// Which file.
        #[source]
        source: CacheError,
    },
}
