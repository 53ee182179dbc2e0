//! The kernel's groups of processes behind one small interface.
//!
//! A service manager has to know which processes belong to a unit, to end all of them and no other, to learn when the
//! last one is gone, and to say what they use. The kernel answers through cgroups, which a machine can offer in several
//! ways; this crate hides the differences and says once, through [`Tree::notice`], what the machine at hand lacks.
//!
//! # Entry points
//! - [`Hierarchy::detect`] finds out what the machine offers: cgroup v2 alone, v2 beside v1 controllers (hybrid), a v1
//!   hierarchy with a name, or nothing. [`Hierarchy::at`] takes a folder instead, for a manager that is told its place.
//! - [`Tree`] is the part of it that the manager owns. Every operation names a [`CgroupPath`] below the tree's root:
//!   make, join, list, signal, kill, freeze, measure, remove, and find what an earlier manager left behind.
//! - [`SpawnTarget`] is how a new process gets in: born inside, joining by itself, or recorded by its session.
//!
//! # Emptiness
//! The crate has no tasks and no channels, and nothing in it waits but [`Tree::wait_frozen`]. A manager that wants to
//! hear of the last process's end watches [`Tree::events_file`] for modification with its own inotify and then asks
//! [`Tree::is_populated`]. Where there is no such file ([`Mode::Legacy`], [`Mode::Sessions`]) it asks after each exit.
//!
//! # Invariants
//! - Nothing outside of the tree is touched: paths cannot climb, and a signal goes to a process only after a descriptor
//!   of it was opened and the group was seen to hold it after that.
//! - Every operation is idempotent: making what is there and removing what is gone succeed.
//! - A unit's name never collides with a file of the kernel's ([`CgroupPath::child`] escapes as systemd does).
//! - What is read is bounded in size, depth and number.
//!
//! # Deliberately absent
//! Which limits a unit has (callers write attributes by name with [`Tree::set`]), v1 resource controllers, and waiting.

#![forbid(unsafe_code)]

mod error;
mod files;
mod hierarchy;
mod path;
mod sessions;
mod signal;
mod tree;
mod usage;

pub use error::{CgroupError, HierarchyError};
pub use hierarchy::{Hierarchy, Mode};
pub use path::{CgroupPath, PathError};
pub use rustix::process::{Pid, Signal};
pub use tree::{Leftover, SpawnTarget, Tree};
pub use usage::{Memory, Usage};
