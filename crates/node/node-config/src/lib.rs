//! The configuration that the controller gives a node: checked, kept, applied without a restart.
//!
//! A device's unit configuration has a part for each of its nodes: when the node's use of processor, memory, disks and network
//! becomes an alert, which labels it has, how it ranks when instances are placed. The controller sends that part as JSON with
//! a version; this crate says whether it would be taken, takes it, and tells everybody on the node who lives by it.
//!
//! # Entry points
//! * [`NodeConfigKeeper::start`] reads what was installed last and gives the handle and the one task. The handle answers the
//!   controller's three requests: [`status`](NodeConfigKeeper::status), [`check`](NodeConfigKeeper::check),
//!   [`set`](NodeConfigKeeper::set).
//! * [`NodeConfigKeeper::subscribe`] gives the [`NodeConfig`] in force and its changes; without one, the default: no rules.
//! * [`Document::read`] is the parser alone.
//!
//! # What is taken
//! | offered | answer |
//! |---|---|
//! | a higher version than the installed one, or the first one | taken |
//! | the installed version with the same content | success, nothing changes: a repeated request is no error |
//! | the installed version with other content | already exists |
//! | a lower version | wrong state |
//! | not valid, or for another node or another kind of node | invalid argument, with the path: `alertRules.cpu.minThreshold` |
//!
//! Versions are semantic ones. If what was installed can no longer be read (a downgrade, a node that became another kind), the
//! status is `failed` with the reason, nothing of it is in force, and any version is taken.
//!
//! # How documents are read
//! By `muster-config`: keys in any case, `null` is absent, every problem at once and each with its path. Keys that are not
//! known are logged and passed over, because controllers send more than this node needs; a known key with a value that it
//! cannot have is refused, never defaulted.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | keeper, one | requests to set (bounded to 8) | database, then the configuration and the status (watched), then the answer |
//!
//! # Invariants
//! * What is reported as installed is durable, and what is in force is what is reported.
//! * A refused document changes nothing.
//! * Subscribers are woken when their part has changed, not by a new version with the same content.
//!
//! # What this crate does not do
//! It applies nothing itself: monitoring takes the rules, the rest of the node the labels and the priority. It does not know
//! the unit configuration, which is the controller's.

#![forbid(unsafe_code)]

mod config;
mod database;
mod decide;
mod document;
mod fault;
mod keeper;
mod raw;
mod tolerant;

pub use self::config::{NodeConfig, ResourceRatios};
pub use self::database::SCHEMA;
pub use self::decide::{Identity, RefuseNodeConfig};
pub use self::document::{Document, FieldProblem, InvalidNodeConfig};
pub use self::fault::FAULT_POINTS;
pub use self::keeper::{NodeConfigKeeper, Settings, StartNodeConfigError};
/// Versions in this crate's interface.
pub use semver::Version;
