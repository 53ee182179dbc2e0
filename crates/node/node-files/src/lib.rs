//! The files of a node: configuration of its daemons, and the units that run them, for nodes that are made by a program. Pure.
//!
//! # Entry points
//! * [`Place`] is where everything of a node is; [`Place::init_command`] starts it.
//! * [`NodeFiles`] is a node and the Unit it belongs to; [`NodeFiles::files`] is every file that its programs read.
//!
//! Whoever makes a node writes these files, runs the command to [`IDENTITY`], has the node provisioned, and starts
//! [`EVERYTHING`].
//!
//! # Invariants
//! * Every unit that a unit names is among the files.
//! * Nothing here reads or writes: the paths may be of another machine.
//!
//! # What this crate does not do
//! It does not know how a node that is installed by hand is configured; the examples of the repository do.

#![forbid(unsafe_code)]

mod configuration;
mod place;
mod units;

use std::net::Ipv4Addr;
use std::path::PathBuf;

pub use self::place::Place;
pub use self::units::{COMMUNICATION_MANAGER, EVERYTHING, IDENTITY};

/// A file and its content.
pub type Text = (PathBuf, String);

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFiles {
    /// Its id, name and type.
    pub name: String,
    /// Where everything of it is.
    pub place: Place,
    /// Where its programs are.
    pub programs: PathBuf,
    /// Where its identity manager listens.
    pub address: Ipv4Addr,
    /// The identity manager's port for everybody.
    pub iam_public: u16,
    /// The identity manager's port for members.
    pub iam_protected: u16,
    /// Its computing power, where it need not be measured.
    pub max_dmips: Option<u64>,
    /// What it belongs to.
    pub unit: UnitMember,
    /// How its instances are connected.
    pub networks: Networks,
    /// What it does beside running instances.
    pub duty: Duty,
}

/// What every node of a Unit is told about it. Files are paths on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitMember {
    /// The system's id.
    pub system_id: String,
    /// Model and version, as `model;version`.
    pub model: String,
    /// Whom instances run for.
    pub subjects: Vec<String>,
    /// The root of all certificates.
    pub root_certificate: PathBuf,
    /// Lists of those that do not count any more.
    pub revocation_lists: Vec<PathBuf>,
    /// The Main Node's identity manager, for everybody.
    pub iam_public: String,
    /// The same, for members.
    pub iam_protected: String,
    /// The Communication Manager.
    pub cm: String,
}

/// How instances are connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Networks {
    /// Each has addresses of its own; networks of a subject leave the node by this link.
    Own {
        /// The subject.
        subject: String,
        /// The link.
        uplink: String,
    },
    /// They use the machine's, and run without containers: for users without root, and for machines that are containers.
    Host,
}

/// What a node does beside running instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    Member,
    /// It is the Main Node.
    Main {
        /// Where files for nodes are served.
        files: String,
        /// Where operators' tools reach the Communication Manager.
        control_socket: PathBuf,
    },
}

impl NodeFiles {
    /// Whether it is the Main Node.
    #[must_use]
    pub fn is_main(&self) -> bool {
        matches!(self.duty, Duty::Main { .. })
    }

    /// Everything that the node's programs read.
    #[must_use]
    pub fn files(&self) -> Vec<Text> {
        let at = |name: &str| self.place.dir.join(name);
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect();
        let mut files = vec![
            (at("node-id"), format!("{}\n", self.name)),
            (at("system-id"), format!("{}\n", self.unit.system_id)),
            (at("model"), format!("{}\n", self.unit.model)),
            (at("subjects"), lines(&self.unit.subjects)),
            (at("iam.json"), pretty(&self.identity_manager())),
            (at("sm.json"), pretty(&self.service_manager())),
            (
                at("logd.conf"),
                "[Journal]\nStorage=persistent\nSystemMaxUse=64M\n".to_owned(),
            ),
        ];
        if let Some(config) = self.communication_manager() {
            files.push((at("cm.json"), pretty(&config)));
        }
        let folder = self.place.units();
        let units = self.units().into_iter();
        files.extend(units.map(|(name, text)| (folder.join(name), text)));
        files
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests;
