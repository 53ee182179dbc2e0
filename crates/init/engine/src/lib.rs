//! The deciding half of a service manager: units, jobs and transactions, as a pure value.
//!
//! [`EngineState`] is everything the engine knows: one versioned, serialisable value. It changes only through
//! [`EngineState::apply`], which takes an [`Event`] in and answers with numbered [`Action`]s. There is no clock, no system
//! call, no thread and no randomness in this crate; all of that comes in with events. So the same events always give the
//! same state, a state can be written before its actions are carried out, and a manager that died in the middle goes on
//! from what was written as if nothing had happened.
//!
//! # Map
//! - [`dep`]: kinds of dependencies and the one table of what each does.
//! - [`spec`]: what must be known of a unit's settings to decide about it.
//! - [`job`]: job types, the merge table, modes and results.
//! - [`transaction`]: from a request to a consistent set of jobs, or a refusal that changes nothing.
//! - [`rest`]: values that take no memory while they are at their default.
//! - `run`: one event, carried through to rest.
//! - [`types`]: the state machines of the unit types, behind the message protocol of [`protocol`].
//! - [`explain`]: why a unit is in its state, who pulled it in, what it waits for.
//!
//! # Invariants
//! - A unit has at most one queued job. Every edge is known at both of its ends.
//! - A refused request changes nothing.
//! - No job waits for itself, so every job ends: by its unit, its dependencies, its timeout or a cancellation.
//! - Actions are idempotent by their number: carrying one out twice is carrying it out once.
//!
//! # Deliberately absent
//! Reading files, spawning, sockets, time, logging: the executor does what the actions say and reports what came of it.

#![forbid(unsafe_code)]

pub mod dep;
pub mod event;
pub mod explain;
pub mod ids;
pub mod job;
pub mod protocol;
pub mod rest;
mod run;
pub mod spec;
pub mod state;
pub mod transaction;
pub mod types;

pub use event::{Action, Event};
pub use state::EngineState;
