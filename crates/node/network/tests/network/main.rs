//! Networks as they are: bridges, namespaces, plugins, rules and names of a real kernel, in machines of the lab.
//!
//! Needs root, the packages `containernetworking-plugins`, `nftables` and `iproute2`.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod bad_plugins;
mod cycles;
mod kill;
mod matrix;
mod nodes;
mod restart;
mod rig;
mod speed;
mod vlan;
mod wire;
