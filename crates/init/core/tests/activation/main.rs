//! What starts units on a machine that runs Muster: sockets, paths, timers, mounts, devices, generators; what keeps them
//! from starting: conditions. And all of that across the death of the manager.

mod kernel;
mod rig;
mod triggers;
