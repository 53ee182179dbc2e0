//! What all runtimes that run instances as units have in common: an instance's folder, its root file system, the records of
//! its starts and ends, and the one way in which units are started, ended and adopted.
//!
//! # Entry points
//! * [`Supervised`] implements [`muster_runtime::Runtime`] for anything that is a [`Backend`]: how the folder is filled, which
//!   commands the unit runs, and what has to be cleared away are the backend's; everything else is here.
//! * [`cgroup`] knows the unit's group and the instance's below it.
//! * [`Place`] is the folder of one instance. [`rootfs`] mounts an image's layers in it.
//! * [`ends::record`] is called by the unit itself after each end of its program.
//! * [`environment`] and [`etc`] make what a program finds in its environment and in `/etc`. Pure.
//! * [`leftovers`] says what instances left behind.
//! * `testing` (feature of that name) is a small Service Manager for tests of runtimes.
//!
//! # Tasks and channels
//! [`Runtime::events`](muster_runtime::Runtime::events) spawns the tasks of [`muster_unit_runner`]; there are no others. Files
//! and mounts are handled on tokio's blocking threads. Nothing is kept in memory that is not also on disk or in the init
//! system.
//!
//! # Invariants
//! * One start is one unit name. A unit of an older run never passes for the present one's.
//! * Every step can be repeated, and a Service Manager that was killed between any two of them ([`FAULT_POINTS`]) adopts what
//!   runs and clears the rest away.
//! * Nothing is removed by walking into what is mounted.
//! * Images are mounted where the host sees them, and give nobody there anything: no devices, nobody's rights by a program, and a
//!   folder that only root gets through, unless user namespaces are used.
//! * How a run ended is recorded by the unit: a Service Manager that was away learns exit codes, signals and want of memory.
//!
//! # Deliberately absent
//! What a container or a sandbox is. Counting starts over the whole life (the launcher's).

pub mod cgroup;
pub mod ends;
pub mod environment;
pub mod etc;
mod faults;
mod leftovers;
mod place;
pub mod rootfs;
mod supervised;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::faults::FAULT_POINTS;
pub use self::leftovers::{Leftover, leftovers};
pub use self::place::{Place, PlaceError, RunRecord, instances_in, read_bounded};
pub use self::supervised::{Backend, SuperviseError, Supervised, UnitCommands};
