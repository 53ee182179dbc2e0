//! The operator's contract with a Unit, `muster.control.v1`, in Rust: messages, client and server.
//!
//! The Communication Manager serves it; the `muster` command line and everybody else's tools call it. Instances are named as on
//! the nodes' wire, so [`muster_api`]'s `common.v2` stands in both.
//!
//! # Entry points
//! * [`v1`] is what the contract in `proto/muster/control/v1` becomes.
//! * [`FILE_DESCRIPTOR_SET`] is the contract as data, for gRPC reflection.
//!
//! # Invariants
//! Numbers are never changed or reused: a change that old tools cannot read is a new package version.
//!
//! # What this crate does not do
//! No I/O. Sockets, deadlines and limits are `muster-rpc`'s.

/// Encoded `FileDescriptorSet` of the contract and of what it imports, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Version 1 of the contract.
#[expect(
    missing_docs,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated; fields that speak for themselves have no comment"
)]
pub mod v1 {
    tonic::include_proto!("muster.control.v1");
}
