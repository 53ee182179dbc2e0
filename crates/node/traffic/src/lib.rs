//! How much an instance and the node exchange with the outside, and the limits to that.
//!
//! The kernel counts ([`muster_firewall::Meter`]); this crate turns its counters, which begin at nought with every boot and every meter, into
//! amounts that only grow, and stops an instance that has used up its day or its month.
//!
//! # Entry points
//! * [`Traffic::open`] reads the accounts from the database and gives the handle and the [`TrafficTask`], which the daemon spawns.
//! * [`Traffic::add_instance`] and [`Traffic::remove_instance`] when an instance gets and loses its address.
//! * [`Traffic::instance`] and [`Traffic::system`] answer at once, from the last reading.
//! * [`SCHEMA`] is the database's part.
//!
//! # The task
//! | task | in | out |
//! |---|---|---|
//! | [`TrafficTask::run`], one | commands (bounded to 32), a turn every [`Settings::poll`] and [`Settings::save`], the stop | meters, database, a snapshot by a watch channel |
//!
//! It alone owns the ledger, which is pure: readings and the time go in, meters that have to change come out. The firewall is
//! called in threads that may block.
//!
//! # What is counted
//! What passes the node between an instance and the outside, after all filters; addresses of
//! [`LOCAL_NETWORKS`](muster_firewall::LOCAL_NETWORKS) are not the outside. The node's account has its own traffic and that of all its instances.
//!
//! # Limits
//! A day and a month are those of UTC. An instance whose account reaches a limit exchanges nothing more in that direction with the
//! outside (whatever it exchanges with local networks goes on) until the period ends. A limit holds one [`Settings::poll`] after it was reached at the
//! latest. Reaching a limit does not depend on the instance: stopping, starting, moving to another address changes nothing.
//!
//! **The clock.** A clock that goes back lifts no limit and takes nothing off an account; the period is then the one that the clock shows, so that
//! a clock that was once far ahead cannot hold a limit for years. A clock that is put ahead does begin a new period: there is
//! nothing that could tell.
//!
//! # Invariants
//! * Amounts never decrease, whatever happens to counters, meters, this process or the machine.
//! * `kill -9` loses nothing: the counters go on, and the last readings are on disk with the boot that they belong to. A power cut loses
//!   at most [`Settings::save`].
//! * An instance's last reading is on disk before its meter is removed.
//! * Accounts of instances that are gone are kept for 62 days, so that no limit can be escaped.
//!
//! # What this crate does not do
//! It does not shape traffic, and does not count what instances exchange with each other.

mod account;
mod database;
mod error;
mod ledger;
mod settings;
mod traffic;

pub use self::database::SCHEMA;
pub use self::error::{MeterError, OpenTrafficError};
pub use self::ledger::{Limits, Usage};
pub use self::settings::{Clock, Settings};
pub use self::traffic::{FAULT_POINTS, Traffic, TrafficTask};
