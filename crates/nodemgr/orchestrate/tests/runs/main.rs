//! Runs on a simulated cloud: their life, their end, and what a crash changes about them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is not as it should be"
)]

mod fake;
mod folders;
mod keeping;
mod kill;
mod life;
mod login;
mod recovery;
mod rig;
mod upgrade;
