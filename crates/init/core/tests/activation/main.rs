//! What starts units on a machine that runs Muster: sockets, paths, timers, mounts, devices, generators; what keeps them
//! from starting: conditions. And all of that across the death of the manager.
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod kernel;
mod rig;
mod triggers;
