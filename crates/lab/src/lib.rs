//! Rigs for tests of Muster against the real thing. A development dependency only: nothing in here ships.
//!
//! Every rig owns what it makes and takes it away when dropped.

mod command;
mod knobs;
pub mod leaks;
pub mod net;
pub mod pki;
pub mod powercut;
pub mod preflight;
mod procs;
pub mod program;
pub mod proxy;
pub mod time;

pub use self::knobs::{SEED_VARIABLE, SOAK_VARIABLE, rounds, seed};
pub use self::time::{poll_for, poll_until, try_poll_for};
