//! Layers of all kinds against real file systems: hostile ones, complete ones, and those of other programs.
#![expect(
    clippy::unwrap_used,
    reason = "a panic in a test's helper is the test's report"
)]

mod complete;
mod hostile;
mod overlay;
mod random;
mod rig;
mod streams;
mod tar;
mod unprivileged;
