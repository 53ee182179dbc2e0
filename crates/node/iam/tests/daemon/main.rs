//! The real daemon: provisioning from outside, killed at every step, on several hosts, under load, and
//! driven by a client that shares no code with it.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod flow;
mod hosts;
mod kill;
mod lifecycle;
mod python;
mod rig;
mod rotation;
