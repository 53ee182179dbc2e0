//! What groups of units are given and held to: in a guest whose kernel has all controllers of cgroup v2, and on this machine.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod files;
mod filters;
mod guest;
mod host;
mod legacy;
mod silent;
