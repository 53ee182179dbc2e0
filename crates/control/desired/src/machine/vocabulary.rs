//! What goes into the machine and what comes out of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{AosError, InstanceIdent, InstanceStatus, NodeId};
use muster_balance::{Placement, Reason};

use super::saved::{Assigned, State, Version};
use crate::document::{DesiredStatus, Item};
use crate::progress::Bytes;
use crate::seams::{Assignment, NodeShare, Question};

/// Number of an update, rising and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId(pub u64);

impl fmt::Display for UpdateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum UpdateStep {
    /// Nothing.
    #[default]
    None,
    /// Items are fetched and verified.
    Downloading,
    /// What an earlier update has begun ends, and nodes that are expected come.
    Pending,
    /// Nodes are paused and resumed, the Unit's configuration is installed.
    Installing,
    /// Instances are placed, and given to their nodes.
    Launching,
    /// Instances become active.
    Activating,
    /// What is not needed any more goes.
    Finalizing,
}

impl UpdateStep {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Downloading,
        Self::Pending,
        Self::Installing,
        Self::Launching,
        Self::Activating,
        Self::Finalizing,
    ];

    /// Its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Downloading => "downloading",
            Self::Pending => "pending",
            Self::Installing => "installing",
            Self::Launching => "launching",
            Self::Activating => "activating",
            Self::Finalizing => "finalizing",
        }
    }
}

impl fmt::Display for UpdateStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who wants something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A person or a file.
    Operator,
    /// The cloud.
    Cloud,
}

impl Origin {
    /// Its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Cloud => "cloud",
        }
    }
}

/// A desired status, and where it came from.
#[derive(Debug, Clone)]
pub struct Wish {
    /// What is wanted.
    pub desired: Arc<DesiredStatus>,
    /// By whom.
    pub origin: Origin,
    /// Where it came from, in the words of who sent it.
    pub name: String,
    /// When.
    pub at: SystemTime,
    /// Places that are preferred, because everything was there before; empty where there are none.
    pub places: Placement,
}

/// What became of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is what is wanted already, and nothing of it has failed.
    Unchanged(UpdateId),
    /// It is what is wanted from now on.
    New(UpdateId),
}

/// Number of a download, so that the end of one that was cancelled is not taken for that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightId(pub u64);

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A download goes on.
    DownloadProgress {
        /// Which one.
        flight: FlightId,
        /// How far it is.
        bytes: Bytes,
    },
    /// A download has ended.
    Downloaded {
        /// Which one.
        flight: FlightId,
        /// How.
        result: Result<(), AosError>,
    },
    /// Nodes have been configured.
    Configured(Result<(), AosError>),
    /// Instances have been placed.
    Planned(Result<Assignment, AosError>),
    /// A node has taken its share, or not.
    Sent {
        /// Which node.
        node: NodeId,
        /// How it went.
        result: Result<(), AosError>,
    },
    /// What is not needed any more is gone, or only takes room until it is asked for again after the next update.
    Retained,
    /// A node is connected, anew or for the first time, and tells its instances next.
    NodeUp {
        /// Which node.
        node: NodeId,
        /// It is paused.
        paused: bool,
    },
    /// A node is gone.
    NodeDown(NodeId),
    /// A node misbehaved and is kept out, so nobody waits for it. It is gone, or will be in a moment.
    NodeShutOut(NodeId),
    /// A node was paused or resumed.
    NodePaused {
        /// Which node.
        node: NodeId,
        /// It is paused.
        paused: bool,
    },
    /// A node tells how instances are.
    Instances {
        /// Which node.
        node: NodeId,
        /// These are all.
        whole: bool,
        /// How they are.
        statuses: Vec<InstanceStatus>,
    },
    /// Instances should be placed anew.
    Replan(Reason),
    /// A deadline may have passed.
    Tick,
}

/// Something to do. At most one of each kind but downloads (and one `Send` per node) is under way at any time, and each is
/// answered by its event exactly once, unless the process dies.
#[derive(Debug, Clone)]
pub enum Action {
    /// Get an item.
    Download {
        /// Its number.
        flight: FlightId,
        /// What.
        item: Item,
        /// For whose sake.
        desired: Arc<DesiredStatus>,
    },
    /// A download is not wanted any more; it is not answered.
    Cancel(FlightId),
    /// Pause and resume nodes, install the configuration of the Unit.
    Configure {
        /// For which update.
        update: UpdateId,
        /// What is wanted.
        desired: Arc<DesiredStatus>,
    },
    /// Ask the balancer.
    Plan(Question),
    /// Give a node what it shall have.
    Send {
        /// Whose assignment it is.
        update: UpdateId,
        /// Which node.
        node: NodeId,
        /// What.
        share: NodeShare,
        /// What runs there and is not wanted any more.
        stop: Vec<InstanceIdent>,
    },
    /// Only these items are needed.
    Retain {
        /// For which update.
        update: UpdateId,
        /// Which.
        items: BTreeSet<Item>,
    },
    /// Tell that the update, or a new placement, is over.
    Finished,
}

/// Something to write down.
#[derive(Debug, Clone)]
pub enum Change {
    /// A version is kept, or has new places.
    Version(Arc<Version>),
    /// A version is not kept any more.
    Forget(UpdateId),
    /// How far the newest is.
    State(State),
    /// Which node has what.
    Assigned(Arc<Assigned>),
}

/// What a call of the machine decided: first written down, all at once, then done.
#[derive(Debug, Default)]
pub struct Turn {
    /// To write down.
    pub changes: Vec<Change>,
    /// To do.
    pub actions: Vec<Action>,
}
