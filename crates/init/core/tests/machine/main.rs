//! Muster as it runs on a machine: `muster-init`, `muster-core`, `muster-logd` and `sctl` together, as process 1 of
//! namespaces and of a guest with a kernel of its own.
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod boot;
mod daemons;
mod distant;
mod failures;
mod kill;
mod networks;
mod own_processes;
mod programs;
mod rig;
mod sandbox;
mod scene;
mod soak;
mod upgrade;
