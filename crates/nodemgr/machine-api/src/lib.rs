//! The contract of the node manager, `muster.nodemgr.v1`, in Rust: messages, clients and servers.
//!
//! `muster-nodemgr` serves it on a local socket; `muster machine` and everybody else's tools call it.
//!
//! # Entry points
//! * [`v1`] is what the contract in `proto/muster/nodemgr/v1` becomes: `MachineService` for machines, `RunService` for what runs
//!   on them.
//! * [`FILE_DESCRIPTOR_SET`] is the contract as data, for gRPC reflection.
//! * [`places::Places`] is where a manager and its socket are if nobody says otherwise.
//! * [`reach::executor`] makes an executor of the answer to `GetAccess`.
//! * [`time`] turns moments and durations into what the contract has for them, and back.
//!
//! # Invariants
//! * Numbers are never changed or reused: a change that old tools cannot read is a new package version.
//! * States, verbs and capabilities are words, the same as on the command line; a tool that meets one it does not know shows it.
//! * The private keys in [`v1::SshAccess`] and [`v1::SshJump`] are in no `Debug` text.
//!
//! # What this crate does not do
//! No I/O. Sockets, deadlines and limits are `muster-rpc`'s.

#![forbid(unsafe_code)]

pub mod places;
pub mod reach;
pub mod time;

use std::fmt;

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
    tonic::include_proto!("muster.nodemgr.v1");
}

/// Without the private key.
impl fmt::Debug for v1::SshAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshAccess")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("host_key", &self.host_key)
            .field("jumps", &self.jumps)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// Without the private key.
impl fmt::Debug for v1::SshJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshJump")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("host_key", &self.host_key)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_in_no_debug_text() {
        let access = v1::Access {
            machine: "m-1".to_owned(),
            way: Some(v1::access::Way::Ssh(v1::SshAccess {
                host: "192.0.2.1".to_owned(),
                private_key: "PRIVATE".to_owned(),
                jumps: vec![v1::SshJump {
                    host: "bastion".to_owned(),
                    private_key: "PRIVATE".to_owned(),
                    ..v1::SshJump::default()
                }],
                ..v1::SshAccess::default()
            })),
            ..v1::Access::default()
        };
        let text = format!("{access:?}");
        assert!(
            text.contains("192.0.2.1") && text.contains("bastion"),
            "{text}"
        );
        assert!(!text.contains("PRIVATE"), "{text}");
    }
}
