//! The registry of machines, on a simulated cloud.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a helper of a test is the report"
)]

mod kill;
mod life;
mod lost;
mod many;
mod nodes;
mod orphans;
mod others;
mod pools;
mod quotas;
mod recovery;
mod rig;
mod scale;
mod timers;
mod trouble;
mod upgrade;
