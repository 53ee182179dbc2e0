//! What can fail.

use std::io;
use std::path::{Path, PathBuf};

use muster_config::ConfigError;
use muster_image::build::BuildError;
use muster_pki::InitAuthorityError;

use crate::command::CommandError;
use crate::layout::LayoutError;
use crate::unit::UnitError;

/// A file or folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct FileError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    pub(crate) fn of(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self {
            operation,
            path,
            source,
        }
    }
}

/// Why the Unit is not up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// A folder cannot be where it should.
    #[error("the Unit cannot be kept there")]
    Layout(#[source] LayoutError),
    /// Something that running needs is not there.
    #[error("this machine lacks {}; `make up` installs and builds what is missing", missing.join(", "))]
    Missing {
        /// What.
        missing: Vec<String>,
    },
    /// Somebody else works on the same folder.
    #[error("another `muster up` or `muster down` works on {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A Communication Manager that is not the demo's answers at the demo's socket.
    #[error(
        "another Unit answers at {}; name other folders with --dir and --run",
        socket.display()
    )]
    OtherUnit {
        /// The socket.
        socket: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} is not empty, and not of a demo", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// The machine has no subnet left for the link between the nodes.
    #[error("all of 10.213.0.0/16 is in use on this machine")]
    NoSubnet,
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The authority cannot be made.
    #[error("cannot make the certificate authority")]
    Authority(#[source] InitAuthorityError),
    /// What shall run makes no sense.
    #[error("cannot use {}", path.display())]
    Desired {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// An image cannot be made.
    #[error("cannot make the image of {item}")]
    Image {
        /// Of what.
        item: &'static str,
        /// Why.
        source: Box<BuildError>,
    },
    /// A command of the machine or of Muster failed.
    #[error("cannot {what}")]
    Command {
        /// What it was for.
        what: String,
        /// How it failed.
        source: CommandError,
    },
    /// A node's init did not come up.
    #[error("node {node} did not start; {} says why", log.display())]
    Start {
        /// Which.
        node: &'static str,
        /// What it said.
        log: PathBuf,
    },
    /// What an earlier run left cannot be removed.
    #[error("cannot clear away what is left of node {node}")]
    Sweep {
        /// Which.
        node: &'static str,
        /// Why.
        source: FileError,
    },
    /// The Communication Manager does not do its part.
    #[error(transparent)]
    Unit(UnitError),
    /// Not everything is active.
    #[error(
        "{waiting} of {all} instances are not active after {seconds} s; `muster get instances` says why"
    )]
    NotActive {
        /// How many are not.
        waiting: usize,
        /// Of how many.
        all: usize,
        /// How long was waited.
        seconds: u64,
    },
}

/// Why something of the Unit is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownError {
    /// A folder cannot be where it should.
    #[error("there can be no Unit there")]
    Layout(#[source] LayoutError),
    /// Somebody else works on the same folder.
    #[error("another `muster up` or `muster down` works on {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} is not of a demo, and is left alone", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// It takes root to remove what root has made.
    #[error("the Unit was started by root; so has this to be")]
    NotRoot,
    /// A file, mount or group cannot be removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A link cannot be removed.
    #[error("cannot {what}")]
    Command {
        /// What it was for.
        what: String,
        /// How it failed.
        source: CommandError,
    },
    /// Rules cannot be removed.
    #[error("cannot remove the packet filter's rules")]
    Rules(#[source] muster_firewall::FirewallError),
}
