//! `muster-core`: the service manager that runs, recovers and explains itself.
//!
//! The engine ([`muster_engine`]) decides; this crate is its hands and its memory. One thread, one epoll loop, no async
//! runtime. What happens between an input and its outcome is behind [`platform::Platform`], so that tests can let the manager
//! die in any of its calls; activation and the control socket make their own, in crates of their own.
//!
//! ```text
//!   muster-init ---exits, signals, kept descriptors---> +---------------------------------------------+
//!   sctl ---------varlink calls------------------------> |  Core                                       |
//!   services -----sd_notify----------------------------> |   input -> record (memfd) -> engine.apply   |
//!   kernel -------mounts, uevents, inotify, timers-----> |            -> actions -> Platform           |
//!                                                        +---------------------------------------------+
//! ```
//!
//! # Entry points
//! - [`Core::begin`] takes what `muster-init` kept and either boots or recovers; [`Core::run`] is the loop.
//! - [`Core::push`] is the only way in: an input is recorded, then applied, then its actions are carried out.
//! - [`context`] turns a unit's settings into how a process is run. What can be set up between `clone3` and `execve` is; what
//!   takes an ordinary process goes to the helper `muster-exec`, which reports through a pipe what it could not have.
//!
//! # Survival
//! - [`record`]: the state is a snapshot and a log of events in a memfd that `muster-init` keeps. An event is appended
//!   before it is applied, and so before anything is done about it.
//! - [`memory`]: what core itself remembers (runs of commands, ended jobs, environment), folded from the same events.
//! - [`recover`]: replay, and finishing the actions that nobody finished. An action whose outcome is in the log was carried
//!   out; a spawn whose outcome is not is looked up in the slot that the kernel itself fills in.
//! - A state that cannot be read is set aside and rebuilt from what runs.
//!
//! # Invariants
//! - Nothing is done that is not recorded first; what is recorded twice is done once.
//! - Nothing waits for long: descriptors are non-blocking, files are small and local, everything slow is a process of its own.
//!   What does wait is bounded: generators at boot (90 s) and at a reload (1 s), freezing a unit (2 s), opening
//!   sockets from within a unit's group (5 s), a process that somebody keeps from executing its program (4 s; after each
//!   `muster-init` gets a sign of life).
//! - A process that asks for a sandbox gets it or never runs: nothing falls back to running without.
//! - A unit's processes are in its cgroup and in a session of their own; they are children of `muster-init`.
//!
//! # Deliberately absent
//! Deciding about units (the engine's), reaping and keeping descriptors (`muster-init`'s), writing logs (`muster-logd`'s),
//! name services and sandboxes (helpers', in processes of their own).

pub mod context;
pub mod control;
pub mod core;
mod execute;
mod journal_feed;
mod logins;
pub mod memory;
pub mod notify;
pub mod options;
pub mod platform;
pub mod record;
pub mod recover;
pub mod resources;
pub mod units;
mod user_directory;

pub use crate::core::Core;
