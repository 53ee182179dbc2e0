//! The contracts of `proto/` in Rust: generated messages, clients and servers, and beside them
//! domain types that cannot be invalid.
//!
//! This is the wire that the managers speak with each other and with their peers of the same
//! family: package names, field numbers and method names are fixed from outside, and a test
//! compares every one of them with the published table.
//!
//! # Entry points
//!
//! | module | holds |
//! |---|---|
//! | [`common::v2`] | what all packages share: [`InstanceIdent`](common::v2::InstanceIdent), [`ErrorInfo`](common::v2::ErrorInfo) ... |
//! | [`servicemanager::v5`] | between the Communication Manager and the Service Managers and Message Proxies of the nodes |
//! | [`iamanager`], [`iamanager::v6`] | identity, certificates, node states, permissions |
//! | [`domain`] | ids, states, digests, times and the messages that daemons hand around, all valid by construction |
//! | [`FILE_DESCRIPTOR_SET`] | the contracts as data, for gRPC reflection |
//!
//! # Wire type or domain type?
//!
//! - The **wire type** stays at the edge: in the function that receives from a stream or sends to
//!   it, and wherever a message is passed on unread (a proxy, a log part, file content).
//! - The **domain type** is for everything behind that edge: planners, state machines, stores.
//!   Convert with `TryFrom` as soon as a message is received, with `From` just before it is sent.
//! - A list whose elements stand for themselves (`UpdateInstances.start_instances`) is converted
//!   element by element, so that one bad element is reported and the others still run.
//! - To keep a domain value on disk, store the encoded wire message: the round trip is lossless.
//!
//! By convention the wire is imported as a module, so that a reader sees which one is meant:
//!
//! ```
//! use muster_api::domain::InstanceInfo;
//! use muster_api::servicemanager::v5 as wire;
//!
//! let refused = InstanceInfo::try_from(wire::InstanceInfo::default()).unwrap_err();
//! assert_eq!(refused.to_string(), "InstanceInfo.instance: missing");
//! ```
//!
//! # Adding an rpc or a field
//!
//! 1. Change the `.proto` file under `proto/<package>/`, with a comment in the same breath. Never
//!    change or reuse a number; a change that old peers cannot read is a new package version.
//! 2. Add the same rows to `tests/data/wire-api.csv`. The test `wire_contract` names what differs.
//! 3. If it carries a secret, add the message to `SECRET_BEARING` in `build.rs` and give it a
//!    `Debug` in `src/redact.rs`.
//! 4. If code behind the edge needs it, add it to the domain type and its two conversions, to its
//!    generator in `src/domain/strategies.rs`, and, for a new message, to the fuzz target
//!    `api_decode`.
//! 5. A new `.proto` file also goes into `CONTRACTS` in `build.rs` and into the modules below.
//!
//! # Invariants
//!
//! - No input makes a conversion panic, and a refusal names the path of the field, the value
//!   (shortened, escaped) and the rule.
//! - Domain to wire cannot fail; domain to wire to bytes and back gives an equal value.
//! - An id is always exactly one normal component of a path.
//! - Secrets do not show in `Debug` output.
//!
//! # What this crate does not do
//!
//! No I/O, no tasks, no clock. Channels, listeners, deadlines and message size limits are
//! `muster-rpc`'s; clients are made with `new(channel)`, and there is no `connect`. Limits on how
//! many instances, nodes or rules there are belong to whoever receives them: none are compiled in.

mod codec;
pub mod domain;
mod redact;

/// Encoded `FileDescriptorSet` of all contracts and of what they import, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Package `common`.
pub mod common {
    /// Words that every other package uses.
    #[expect(
        missing_docs,
        reason = "generated; fields that speak for themselves have no comment"
    )]
    pub mod v2 {
        tonic::include_proto!("common.v2");
    }
}

/// Package `servicemanager`.
pub mod servicemanager {
    /// Between the Communication Manager and what runs on each node.
    #[expect(
        missing_docs,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated; fields that speak for themselves have no comment"
    )]
    pub mod v5 {
        tonic::include_proto!("servicemanager.v5");
    }
}

/// Package `iamanager`: which version a server speaks.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated, here and in the version below"
)]
pub mod iamanager {
    tonic::include_proto!("iamanager");

    /// Identity and Access Manager.
    #[expect(
        missing_docs,
        reason = "generated; fields that speak for themselves have no comment"
    )]
    pub mod v6 {
        tonic::include_proto!("iamanager.v6");
    }
}
