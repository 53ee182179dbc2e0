//! Tests of the machines: scenarios per type, and laws that hold for all of them.

mod laws;
mod memory;
mod storage;
mod triggers;
pub(crate) mod world;
