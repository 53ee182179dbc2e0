//! The provider and the executor on a real engine.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a helper of a test is the report"
)]

mod conformance;
mod kill;
mod late;
mod machines;
mod pull;
mod rig;
