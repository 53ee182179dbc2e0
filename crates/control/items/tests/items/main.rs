//! Items from everywhere, against the real thing: layouts on disk, a registry, servers that misbehave, nodes that fetch.
#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod cloud;
mod kill;
mod local;
mod registry;
mod rig;
#[expect(dead_code, reason = "another crate's tests use all of it")]
#[path = "../../../../node/image/tests/common/server.rs"]
mod server;
mod serving;
mod signer;
mod test_cloud;
mod upgrade;
