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
    #[error(
        "another `muster up` or `muster down` works on {}; try again when it has ended",
        path.display()
    )]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Root's Unit and a user's differ.
    #[error(
        "the Unit in {} was started {how}; run this {how}, too, or name another folder with --dir",
        path.display()
    )]
    OtherUser {
        /// The folder.
        path: PathBuf,
        /// How.
        how: &'static str,
    },
    /// The file system is too small.
    #[error(
        "{} has {free} MiB left and the Unit needs {needed}; make room, or name another folder with --dir or --run",
        path.display()
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// What is free, in MiB.
        free: u64,
        /// What is needed, in MiB.
        needed: u64,
    },
    /// A user is not let into a namespace of users, so nothing can be put into a root file system of its own.
    #[error(
        "this machine lets users make no namespaces, so instances cannot have file systems of their own; as root set \
         kernel.unprivileged_userns_clone=1 (Debian) or kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu) with \
         sysctl, or run `muster up` as root"
    )]
    NoUserNamespaces(#[source] CommandError),
    /// Layers cannot be laid over each other.
    #[error(
        "image layers from {} cannot be mounted in {} (on an overlay, as in many containers, or on a network file \
         system); name folders on a disk or in memory with --dir and --run",
        dir.display(), run.display()
    )]
    NoLayers {
        /// Where layers would be.
        dir: PathBuf,
        /// Where they would be mounted.
        run: PathBuf,
        /// What was said.
        source: CommandError,
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
    #[error("{} is not empty, and not of a demo; name another folder with --dir", path.display())]
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
        "{waiting} of {all} instances are not active after {seconds} s; `muster get instances --unit {}` says why",
        socket.display()
    )]
    NotActive {
        /// Where the Communication Manager answers.
        socket: PathBuf,
        /// How many are not.
        waiting: usize,
        /// Of how many.
        all: usize,
        /// How long was waited.
        seconds: u64,
    },
}

impl UpError {
    /// Whether nodes may have been started, so that there are logs to read and something to take away.
    pub fn has_begun(&self) -> bool {
        matches!(
            self,
            Self::Start { .. }
                | Self::Sweep { .. }
                | Self::Command { .. }
                | Self::Unit(_)
                | Self::NotActive { .. }
        )
    }
}

/// Why something of the Unit is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownError {
    /// A folder cannot be where it should.
    #[error("there can be no Unit there")]
    Layout(#[source] LayoutError),
    /// Somebody else works on the same folder.
    #[error(
        "another `muster up` or `muster down` works on {}; try again when it has ended, or end it (Ctrl-C) first",
        path.display()
    )]
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
    #[error("the Unit was started as root; run this as root, too")]
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
