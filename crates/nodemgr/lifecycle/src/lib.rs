//! The life of a machine: its states, what may be asked of it in each, when it is put away, and how pools stay warm.
//!
//! Whoever provides a machine, it lives the life of an EC2 instance, because that is the diagram the field knows. Everything
//! here decides and nothing acts: facts and the time come in, a decision comes out.
//!
//! ```text
//!              ┌──────────────── start, resume ────────────────┐
//!              v                                               │
//!   order ─> pending ──> running ── stop, hibernate ─> stopping ──> stopped (off | hibernated)
//!              │          │ ^ │                          │            │
//!              │          └─┘ │ reboot stays inside      │            │
//!              └──────────────┴── terminate ─────────────┴────────────┘
//!                                     v
//!                               shutting-down ──> terminated
//! ```
//!
//! # Entry points
//! * [`State`] with EC2's names and codes. Hibernated is a [`State::Stopped`] that says so; so is hibernating.
//! * [`decide`] answers, for a state, a [`Verb`] and the [`VerbSet`] that a provider can do: nothing to do, do this, or a
//!   [`RefusedVerb`] that says why and what to do instead. It is asked before anything happens.
//! * [`Lifecycle`] is the state machine of one machine: what was last seen of it, and the [`Task`] under way. It knows when
//!   a graceful stop has to become a forced one, and when a start has failed ([`Lifecycle::patience`]).
//! * [`timers::due`] tells when an idle machine is stopped, a stopped one destroyed, and one past its lifetime destroyed.
//! * [`pool::plan`] tells which machines a warm pool starts, and how many it makes.
//! * [`Moment`] is wall-clock time in milliseconds, so that it can be stored and compared after a restart.
//!
//! # Invariants
//! * A terminated machine stays terminated, and one that is shutting down does nothing else, whatever is asked or seen.
//! * A refused verb changes nothing.
//! * A busy machine is never put away by a timer, not even past its lifetime: that one comes due when the work is done.
//! * Being unreachable is no state. A machine that cannot be reached is not stopped for being idle, since nobody can see
//!   whether it is, and it is never taken for terminated.
//! * A node of a Unit is put away by nothing but its lifetime: its work is the Unit's, and is not seen here.
//! * A pool never starts or makes more than its minimum needs, and never passes its maximum, nor twice its minimum where machines
//!   do not answer.
//!
//! # What this crate does not do
//! No I/O, no clock, no tasks. It does not know providers; they say what they can do by a [`VerbSet`], and their words for
//! states are translated where they are spoken.

#![forbid(unsafe_code)]

mod machine;
mod moment;
pub mod pool;
mod reason;
mod rules;
mod state;
pub mod timers;
mod verb;

pub use machine::{Ended, ImpossibleMove, Lifecycle, Patience, Seen, Task};
pub use moment::Moment;
pub use reason::Reason;
pub use rules::{RefusedVerb, Step, decide};
pub use state::{Halt, State, UnknownState};
pub use verb::{UnknownVerb, Verb, VerbSet};
