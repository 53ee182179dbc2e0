//! Every machine that was ordered, from the order to its end: durable, reconciled, and never leaked.
//!
//! A machine costs money as long as it exists, so nothing may be forgotten: what is to be done is on disk before a provider is
//! asked, and what a provider answered is on disk before anybody is told. A manager that dies at any moment finds every
//! half-made machine again, by the token and the mark that were written down first.
//!
//! # Entry points
//! * [`Machines::start`] with [`Parts`] (database, providers, clock) and [`Settings`] gives the handle and the one task.
//! * [`Machines::order`] answers when the order is durable; [`Machines::provision`] waits until the machine runs. With
//!   [`MachineOrder::key`], ordering again after a crash gives the same machine.
//! * [`Machines::ask`] takes the verbs of [`muster_lifecycle`]; what is not allowed is refused before anything happens.
//!   [`Machines::destroy`] is one of them, and is tried until it is done.
//! * [`Machines::begin_work`] and [`Machines::heartbeat`] keep a machine from being put away.
//! * [`Machines::set_unit`] says that a machine is a node of a Unit: it is not put away for being idle or stopped, given to nobody
//!   else, and remembered after its end until the Unit does not know it any more.
//! * [`Machines::set_reachable`] tells whether a machine that runs answers ([`Contact`]): until it has, a pool gives it to nobody.
//! * [`Machines::set_pool`], [`claim`](Machines::claim) and [`release`](Machines::release): warm pools.
//! * [`Machines::find_orphans`] and [`collect_orphans`](Machines::collect_orphans): what bears our mark and nobody knows.
//! * [`Machines::watch`] is the state of everything, [`Machines::events`] what happens; [`Machines::events_after`] what
//!   happened, from the database.
//!
//! # After a crash
//! | what was on disk | what is done |
//! |---|---|
//! | an order, no answer | the provider is asked again with the same token: it makes the machine, or gives the one it had made. An order older than [`Settings::carry_on`] is cancelled, and what was made of it is found by its mark and destroyed. |
//! | a cancelled order | the mark is looked for; what is found is destroyed |
//! | a verb | it is asked again; where it has been done, nothing happens. (A reboot may be done twice.) |
//! | whether it answers | nothing of that is on disk: it is tried anew |
//! | that it shall end | it is destroyed again, which succeeds if it is gone |
//! | the state of a machine | it is compared with what the provider shows |
//!
//! A machine that its provider shows though its record says that it is gone, or twice, is destroyed. One that no record knows
//! is left alone until an operator collects orphans: another manager could have our name by mistake.
//!
//! # Failures
//! Errors that pass are retried, later and later; an order and a verb are given up after [`Settings::attempts`], destroying
//! never. What a provider says is under way ([`FailureClass::Underway`](muster_provider::FailureClass::Underway)) is no failure, and
//! asked again as often as it takes. An order that was given up is cancelled, not forgotten: its answer may have been lost. A provider
//! that does not answer says nothing about its machines; they stay what they were.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | registry, one | the daemon, from [`Machines::start`] | commands (bounded to 64), answers of providers, deadlines | database; then a `watch` of all machines, a broadcast of events (bounded to 256), answers; then calls | when every handle is gone, or it is dropped, which is safe at any time |
//! | calls, [`Settings::calls`] of each provider at once | the registry | a provider | its answer | with the answer, or after [`Settings::call`]; a stop, a reboot and a hibernation also when the machine shall end at once |
//!
//! # Invariants
//! * A provider is asked for a machine only after its record is durable, always with the token of that record.
//! * Nobody is told of what is not durable. A disk that is full stops the registry until it has space.
//! * Each machine has at most one call under way that changes it.
//! * Nothing that does not bear our mark is ever changed.
//! * No order passes its provider's quota ([`Settings::quotas`]), however many come at once, pools' own among them.
//! * A busy machine is not put away by a timer; work that was seen before a restart counts as having ended at the restart, and what
//!   was said to be busy until some time is so for the next manager, too.
//! * A machine of a pool is given away only after it has answered. One that does not answer is replaced, and destroyed after
//!   [`Settings::silence`] if nobody ever used it. Whatever somebody may have used is out of reach, and not dead.
//!
//! # What this crate does not do
//! It chooses no provider (`muster-schedule`), knows no template, runs nothing inside machines, and does not tell whether a
//! machine answers: executors do, with [`Machines::set_reachable`].

#![forbid(unsafe_code)]

mod activity;
mod agenda;
mod book;
mod calls;
mod collect;
mod database;
mod driver;
mod error;
mod event;
mod fault;
mod handle;
mod record;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;

pub use activity::{Busy, Contact, WorkKind};
pub use book::Pool;
pub use collect::{Orphan, Orphans};
pub use database::SCHEMA;
pub use driver::Parts;
pub use error::{
    AskError, ClaimError, CollectError, OrderError, ProvisionError, StartMachinesError,
};
pub use event::{Happened, MachineEvent};
pub use fault::FAULT_POINTS;
pub use handle::{Machine, Machines, Snapshot};
pub use record::{Lost, MachineOrder, Made, Phase, Record};
pub use settings::Settings;
