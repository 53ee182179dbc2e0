//! What users ask for most, one test each.
//!
//! Scenarios about nodes run on real ones ([`unit`]): lab machines with core, the identity manager, the Service Manager and, on
//! the Main Node, the Communication Manager, as the units that Muster installs, with TLS, and containers by runc. Scenarios about
//! numbers and timing run the real daemon with simulated nodes, as its other tests do.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod boots;
mod certificates;
mod flood;
mod links;
mod machines;
mod names;
#[expect(
    dead_code,
    reason = "scenarios need a part of what the daemon's other tests do"
)]
#[path = "../daemon/node.rs"]
mod node;
#[expect(
    dead_code,
    reason = "scenarios need a part of what the daemon's other tests do"
)]
#[path = "../daemon/rig.rs"]
mod rig;
mod rollback;
mod stuck;
mod unit;
mod unmet;
