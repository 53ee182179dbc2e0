//! Items from everywhere, against the real thing: layouts on disk, a registry, servers that misbehave, nodes that fetch.
#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod local;
mod registry;
mod rig;
mod serving;
