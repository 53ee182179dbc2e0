//! The real daemon, as a process, with simulated nodes and an operator.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod cloud;
mod foreign;
mod iam;
mod identity;
mod node;
mod operators;
mod rig;
mod updates;
