//! What a process sees of the file system: from the words of unit files to the mounts that make it so.
//!
//! A [`View`] says what is to be seen and done where, a plain value that can be stored and sent. [`plan`] turns it into a
//! [`Plan`], the steps that make it so, in order. `muster-exec` carries plans out, in a mount namespace of the process's
//! own. Planning makes no system call: what the file system looks like is asked of a [`Machine`].
//!
//! ```text
//! View --gather--> entries --settle--> providers and rules --nodes--> what holds where --emit--> Plan { steps }
//!          path lists of      symlinks followed    one per path, those that
//!          ProtectSystem= ... inside the new view   repeat their parent gone
//! ```
//!
//! # What holds where
//! - A *provider* puts something else at a path: a bind, a file system in memory, devices, processes. A *rule* says what may
//!   be done with what is there: read-only, read-write, executable or not, nothing at all.
//! - The most specific rule wins: each path is as its nearest listed ancestor says, or itself. Writing and executing are
//!   two questions, answered apart.
//! - At one path the stricter rule wins: inaccessible before read-only before read-write, not executable before executable.
//!   Below an inaccessible path nothing else is done.
//! - Of several providers at one path, one is left: a bind before devices before memory. All agree that it is read-only if
//!   one says so.
//! - Read-write undoes a rule of the same view, never what the machine itself has mounted read-only. Executable undoes
//!   both, as in systemd.
//!
//! # Where sources come from
//! Everything that is seen at two places, or seen again with other rights, is a copy of the machine's tree as it was before
//! the first step. So no step can be hidden by another one, nothing has to be mounted twice, and no list of exceptions is
//! needed for a read-write folder in a read-only one: its copy was taken before and is put on top.
//!
//! # Invariants
//! - The plan depends on the sets of entries, not on the order in which they are listed.
//! - Parents come before what is below them. A slot is filled before it is attached, and attached once.
//! - Symlinks are followed as the process will see them: never out of its root, and through what is bound.
//! - Places to mount on are made where they are missing, but never in what is bound read-only into another root.
//! - The number of entries, the length of paths and the number of symlinks followed are bounded.
//!
//! # Images
//! What is in an image, and what extensions make of a folder, is a tree of its own ([`Tree`]), mounted before anything is
//! planned. [`partitions`] says which partitions of an image are mounted, [`release`] whether an extension fits a system.
//!
//! # Deliberately absent
//! System calls, and images inside images.

#![forbid(unsafe_code)]

mod emit;
mod entries;
mod image;
mod machine;
mod nodes;
mod options;
pub mod partitions;
mod path;
mod plan;
pub mod release;
mod settle;
mod sight;
mod tables;
mod view;

pub use image::{Extension, ExtensionSource, Hierarchy, Image, MountImage, Part, PartOptions};
pub use machine::{LookError, Machine, Seen, Tree};
pub use options::{AccessTime, Attributes, MountOptions, OptionsError};
pub use plan::{
    Action, Change, DEVICES, Fresh, Origin, Plan, PlanError, Point, PointKind, Slot, Step,
    Tolerance, plan, plan_leniently,
};
pub use view::{
    Bind, Folders, Link, Place, ProcOthers, Propagation, ProtectHome, ProtectSystem, Root,
    Temporary, View,
};
