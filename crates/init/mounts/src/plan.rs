//! The steps that make a view, and the way to them.

use crate::emit;
use crate::entries;
use crate::machine::{LookError, Machine, Tree};
use crate::nodes;
use crate::options::{MountOptions, OptionsError};
use crate::settle::Settled;
use crate::sight::Looker;
use crate::view::{ProcOthers, View};

/// The nodes of a `/dev` of its own, as the machine has them.
pub const DEVICES: [&str; 7] = ["full", "null", "ptmx", "random", "tty", "urandom", "zero"];

/// What makes a view, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is done, one after the other.
    pub steps: Vec<Step>,
    /// How many slots the steps use.
    pub slots: u16,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The directive that asks for it.
    pub directive: &'static str,
    /// What is done.
    pub action: Action,
    /// Which failure does not matter.
    pub tolerance: Tolerance,
}

/// Which failure of a step does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// None.
    Nothing,
    /// The path has vanished or was never there.
    Absence,
    /// The kernel cannot do it, or does not let us. The directive is documented to be without effect then.
    Refusal,
}

/// A mount that is not attached anywhere yet, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

/// What a step does. Paths are free of symlinks; those of the view count from its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a place to mount on, and the folders above it.
    Create {
        /// In which tree.
        tree: Tree,
        /// Where, and what.
        point: Point,
    },
    /// Copies what is mounted at a path.
    Copy {
        /// Where the copy goes.
        slot: Slot,
        /// What is copied.
        origin: Origin,
        /// With what is mounted below it.
        recursive: bool,
        /// What is changed in the copy.
        change: Change,
    },
    /// Makes a file system.
    Make {
        /// Where it goes.
        slot: Slot,
        /// Which.
        fresh: Fresh,
        /// Places in it that later steps mount on.
        points: Vec<Point>,
        /// What is changed when it is complete.
        change: Change,
    },
    /// Attaches what is in a slot. At `/` it becomes the root of the view.
    Attach {
        /// The slot.
        slot: Slot,
        /// The path in the view.
        at: Box<str>,
    },
    /// Changes what is mounted at a path and below it, in place.
    Change {
        /// The path in the view.
        at: Box<str>,
        /// What is changed.
        change: Change,
    },
    /// Covers a path with something of its kind that nobody can enter, read or write.
    Hide {
        /// The path in the view.
        at: Box<str>,
    },
}

/// Where a copy is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A tree, which no step has changed there yet.
    Tree(Tree, Box<str>),
    /// The view, as far as it is made.
    View(Box<str>),
    /// The kernel's objects (`/sys`) with the links of the caller's own network, and what the machine has mounted below them.
    /// Whoever may not have them made anew gets the machine's.
    Objects,
}

/// What is changed in a mount and all mounts below it. What is not named stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether nobody writes.
    pub read_only: Option<bool>,
    /// Whether things can be executed.
    pub exec: Option<bool>,
    /// Devices on it are none, and programs run as who starts them.
    pub plain: bool,
}

/// A file system that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fresh {
    /// A `/dev` with [`DEVICES`], the links to standard streams and to the log's socket.
    Devices,
    /// The kernel's processes.
    Processes {
        /// What is seen of those of others.
        others: ProcOthers,
        /// Nothing but processes is seen.
        only_processes: bool,
    },
    /// POSIX message queues.
    Queues,
    /// Control groups, from the process's own down.
    Groups,
    /// Memory.
    Memory(MountOptions),
}

/// A place to mount on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Its path. In a fresh file system it counts from its root and has no slash in front.
    pub path: Box<str>,
    /// What it is.
    pub kind: PointKind,
}

/// What a place to mount on is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointKind {
    /// A folder.
    Folder,
    /// An empty file, for anything that is no folder.
    File,
}

/// A view cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A path is not absolute, too long, or holds a zero byte.
    #[error("{directive}: {path:?} is not an absolute path of at most 4095 bytes")]
    BadPath {
        /// The directive.
        directive: &'static str,
        /// The path.
        path: Box<str>,
    },
    /// A path must exist and does not.
    #[error("{directive}: {path} does not exist")]
    Missing {
        /// The directive.
        directive: &'static str,
        /// The path.
        path: Box<str>,
    },
    /// More symlinks than anybody follows.
    #[error("{directive}: {path} leads through too many symlinks")]
    Links {
        /// The directive.
        directive: &'static str,
        /// The path.
        path: Box<str>,
    },
    /// A path cannot be looked at.
    #[error("{directive}: cannot look at {path}")]
    Look {
        /// The directive.
        directive: &'static str,
        /// The path.
        path: Box<str>,
        /// Why.
        #[source]
        source: LookError,
    },
    /// Mount options make no sense.
    #[error("{directive}: cannot take the mount options of {path}")]
    Options {
        /// The directive.
        directive: &'static str,
        /// Where it is mounted.
        path: Box<str>,
        /// Why.
        #[source]
        source: OptionsError,
    },
    /// Binds lead through each other's symlinks in a circle.
    #[error("{directive}: what {path} means depends on where {path} is mounted")]
    Unsettled {
        /// The directive.
        directive: &'static str,
        /// The path.
        path: Box<str>,
    },
    /// More entries than a plan has room for.
    #[error("the view has {count} entries, {limit} is the most")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl PlanError {
    /// The kernel's number of what is wrong.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Missing { .. } => 2,
            Self::TooMany { .. } => 7,
            Self::BadPath { .. } | Self::Options { .. } => 22,
            Self::Links { .. } | Self::Unsettled { .. } => 40,
            Self::Look { source, .. } => source.errno,
        }
    }
}

/// What makes the view on this machine.
///
/// # Errors
/// Something in it cannot be had.
pub fn plan<M: Machine>(view: &View, machine: &M) -> Result<Plan, PlanError> {
    let (plan, mut problems) = plan_leniently(view, machine);
    if problems.is_empty() {
        Ok(plan)
    } else {
        Err(problems.swap_remove(0))
    }
}

/// What makes the view on this machine but for what cannot be had, and that.
pub fn plan_leniently<M: Machine>(view: &View, machine: &M) -> (Plan, Vec<PlanError>) {
    let mut problems = Vec::new();
    let looker = Looker::new(machine);
    let entries = entries::gather(view, &looker, &mut problems);
    let tree = if entries::has_root(view) {
        Tree::Root
    } else {
        Tree::Machine
    };
    let settled = Settled::new(&looker, tree, &entries, &mut problems);
    let nodes = nodes::needed(&settled);
    (emit::emit(&settled, &nodes), problems)
}

#[cfg(test)]
mod tests;
