//! `muster-init`: the parent of all services, as PID 1 or, with `--supervise`, beside another init.
//!
//! Everything that can fail is in `muster-core`, and core may die at any moment. This program is what makes that
//! harmless: it does so little that it does not fail, and holds what must outlive a core.
//!
//! # What it does
//! - starts core, and another one when it crashes, hangs or asks for an upgrade ([`policy`]);
//! - keeps descriptors by name, and hands all of them to the next core ([`kept`]);
//! - is the parent of every service: reaps them, and reports each exit until a core has recorded it ([`exits`]);
//! - passes signals on to core, which knows what they mean;
//! - can be replaced by a newer program under the same pid, with everything that it keeps ([`replace`]);
//! - ends what is left at the shutdown, and the machine ([`ending`], [`machine`]);
//! - as PID 1, mounts what the kernel did not ([`boot`]).
//!
//! # Entry points
//! [`start::start`] prepares and runs it; [`init::Init`] is the event loop. One thread, one epoll set with two
//! descriptors (signals, the link to the present core), no channels. The link's protocol is the crate
//! `muster-handover`.
//!
//! # Invariants
//! - There is at most one core. A new one is started only after the former one was reaped.
//! - While a core finds out what runs ([`policy::Policy::may_reap`] is false), nothing but core is reaped, so
//!   pids that are not in the list of exits keep their meaning.
//! - What core had sent before it died counts: its messages are all read before the next core is started.
//! - An exit is reported to every core until one acknowledges it. When too many are waiting, the kernel keeps
//!   the zombies.
//! - Init never waits for core: what is to be said follows from the state ([`conversation`]), and is said when the
//!   socket takes it.
//! - After the start nothing is allocated, apart from executing itself anew and ending.
//! - As PID 1 it never exits and never gives up; only a supervisor whose core could never be executed does.
//! - A supervisor signals only its own descendants and leaves the machine alone; in a PID namespace file systems
//!   are left to the kernel.
//!
//! # What it does not do
//! It reads no unit files, runs no commands, knows nothing about services, and speaks to nobody but core. It makes
//! no exception for processes that serve the root file system: everything is ended before it is unmounted.

pub mod boot;
pub mod conversation;
pub mod ending;
pub mod exits;
pub mod init;
pub mod kept;
pub mod launch;
pub mod machine;
pub mod options;
pub mod policy;
pub mod programs;
pub mod replace;
pub mod report;
pub mod signals;
pub mod start;
pub mod state;
