//! Facts that have no type of their own elsewhere.

use std::fmt;

use muster_api::domain::NodeId;

/// Which Unit this is. The identity manager says most of it, and may be reached only later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitAbout {
    /// Which Unit this is.
    pub system_id: String,
    /// Of the Communication Manager.
    pub version: String,
    /// The node that it runs on.
    pub main_node: Option<NodeId>,
}

/// What a node's configuration says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfigFacts {
    /// Of the configuration in force; empty without one.
    pub version: String,
    /// Labels that instances may ask for.
    pub labels: Vec<String>,
    /// Nodes with a higher one are preferred.
    pub priority: u64,
}

/// How the cloud can be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CloudFacts {
    /// There is one.
    pub configured: bool,
    /// It answers.
    pub connected: bool,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// A node.
    Node,
    /// An instance.
    Instance,
    /// An item.
    Item,
    /// An update.
    Update,
    /// The cloud.
    Cloud,
    /// An alert.
    Alert,
    /// The Unit's or a node's configuration.
    Config,
    /// What is remembered: something was lost.
    History,
}

impl NoteKind {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Instance => "instance",
            Self::Item => "item",
            Self::Update => "update",
            Self::Cloud => "cloud",
            Self::Alert => "alert",
            Self::Config => "config",
            Self::History => "history",
        }
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that happened and that an operator may want to read about later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// Which one.
    pub name: String,
    /// What happened, for people.
    pub message: String,
    /// Something is wrong.
    pub warning: bool,
}

impl Note {
    /// As it should be.
    pub fn plain(kind: NoteKind, name: impl Into<String>, message: impl Into<String>) -> Self {
        let (name, message) = (name.into(), message.into());
        let warning = false;
        Self {
            kind,
            name,
            message,
            warning,
        }
    }

    /// Something is wrong.
    pub fn warning(kind: NoteKind, name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::plain(kind, name, message)
        }
    }
}
