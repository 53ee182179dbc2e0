//! From unit files to units: the implicit dependencies, the engine's view and the properties that users are shown.
//!
//! `muster-unit-file` says what the files of one unit say, `muster-engine` decides about units that are complete. This
//! crate stands between them. Everything in it is a function of values: no clock, no system call, no state. It has no
//! long-running tasks and no channels; a manager calls it whenever it loads or shows units.
//!
//! # Map
//! - [`calls`] is what the lists of system calls of a unit say to the compiler of filters, `muster-seccomp`.
//! - [`closure::Closure`] loads units and everything that they mention, so that a graph is complete.
//! - [`facts`] is what specifiers say about a machine, read through the loader's file system.
//! - [`Graph`] joins loaded units: stated, implied and default dependencies, slices, mounts, and the inverse of each edge.
//! - [`effective`] is what settings come to when others imply them (`DynamicUser=` a strict sandbox, for example).
//! - [`convert::loaded_unit`] makes of a graph's unit what the engine takes in.
//! - [`show::show`] prints a unit's properties by the names, in the format and in the order of systemd 252's
//!   `systemctl show`. Settings come from the graph, the machine's own values from [`Host`], and what happens at
//!   run time from [`Runtime`], whose default is a unit that never ran.
//! - [`security::assess`] says what a service can do, and how much of it a break-in would expose.
//!
//! # Invariants
//! - Every edge of a graph is known at both of its ends, by the main names of both units.
//! - A unit never depends on itself, and nothing is ordered before a device.
//! - The order of what is handed in does not change any property.
//!
//! # Deliberately absent
//! Reading files (the loader's part, behind its file system trait), deciding about jobs (the engine's), evaluating
//! conditions, drawing random delays, and the dependencies of cryptsetup and quota, which generators write into files.

#![forbid(unsafe_code)]

pub mod calls;
pub mod closure;
pub mod convert;
pub mod effective;
pub mod facts;
pub mod graph;
pub mod host;
mod implicit;
pub mod runtime;
pub mod security;
pub mod show;

pub use graph::Graph;
pub use host::Host;
pub use runtime::Runtime;
