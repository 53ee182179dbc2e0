//! Machines of a real libvirt: its daemons in namespaces of their own, guests with a kernel of their own.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a helper of a test is the report"
)]

mod conformance;
mod crash;
mod daemons;
mod executor;
mod install;
mod kill;
mod life;
mod network;
mod rig;
mod seeded;
