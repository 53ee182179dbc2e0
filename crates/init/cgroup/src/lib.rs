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
//! - [`Legacy::detect`] finds controllers that are bound to cgroup v1, and [`Tree::use_legacy`] uses them for units that ask for
//!   limits. [`Tree::joins`] are the files by which a new process gets into their groups.
//! - [`Resources`] says what a unit's processes may use together. [`Plan::new`] decides, without touching anything, which
//!   controllers the group needs, which files are written, which [`Program`]s (and [`PinnedProgram`]s of others) are attached, and
//!   what this machine ([`Offer`])
//!   cannot do, with the reason. [`Tree::limit`] carries it out, but for the programs: loading them takes `muster-exec`.
//! - [`PressureWatch`] is what a service is told about the pressure on its memory.
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
//! - A group that is frozen, or about to be, by its own setting or by that of one above it, takes no new process; and the group
//!   for commands beside a delegate's processes is never the delegate's.
//! - A unit's name never collides with a file of the kernel's ([`CgroupPath::child`] escapes as systemd does).
//! - What is read is bounded in size and number. Groups are found at any depth and under any name.
//! - A wish about resources is either written or named as not applied, never dropped in silence.
//! - Controllers that everybody's accounts need (memory, pids) are always handed on; others only on the way to a unit that needs
//!   them, and never past a slice that disables them.
//! - Controllers of v2 go first. Groups in hierarchies of cgroup v1 are made only for units that ask for something (also those of
//!   slices that do, and siblings of one that has a share), below the manager's own group, and go with the unit; processes that
//!   a delegate put elsewhere stay there. Others' groups are neither limited nor removed: ours carry a mark.
//! - A filter decides as its plain `allows` says; every part of its program can be reached, since the kernel takes no other.
//!
//! # Deliberately absent
//! Freezing by cgroup v1, and giving its groups away with `Delegate=`: it is not safe there. Loading programs, and waiting.

#![forbid(unsafe_code)]

mod controllers;
mod error;
mod files;
mod filter;
mod hierarchy;
mod legacy;
mod path;
mod pressure;
mod resources;
mod sessions;
mod set;
mod signal;
mod tree;
mod usage;
mod walk;

pub use controllers::{Controller, Controllers};
pub use error::{CgroupError, HierarchyError};
pub use filter::{
    AttachPoint, BindFilter, BindRule, COUNTERS_SIZE, DeviceAccess, DeviceFilter, DeviceKind,
    DeviceRule, Direction, Family, FileFilter, FileLayout, FileSystems, Hook, Instruction,
    Interfaces, LayoutError, MAX_BTF, Network, PinnedProgram, Ports, Program, Protocol,
    TooManyNetworks, TrafficFilter, UnknownFileSystem,
};
pub use hierarchy::{Hierarchy, Mode};
pub use legacy::{Legacy, LegacyPlace, Subsystem, Subsystems};
pub use path::{CgroupPath, PathError};
pub use pressure::{PressureWatch, PressureWish, pressure_file};
pub use resources::{
    Amount, Attribute, CpuQuota, CpuShare, DeviceLimits, IoLimits, LegacyAttribute, MemoryLimits,
    Need, Occasion, Offer, Plan, Resources, Unapplied,
};
pub use rustix::process::{Pid, Signal};
pub use set::{Member, Set};
pub use tree::{Allotted, Leftover, Refusals, SpawnTarget, Tree};
pub use usage::{Memory, Usage};
