//! The registry of machines, on a simulated cloud.

mod kill;
mod life;
mod orphans;
mod pools;
mod recovery;
mod rig;
mod scale;
mod timers;
mod trouble;
mod upgrade;
