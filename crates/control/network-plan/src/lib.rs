//! The networks of a Unit: subnets, addresses, VLANs, names and firewall rules for instances that have a place, pure.
//!
//! # Entry point
//! [`plan`] takes a [`NetworkRequest`] (placed instances with what they expose and may call, and the subnets that nodes
//! already use) and the [`Allocations`] of the last plan, and answers with a [`NetworkPlan`]: per node its networks, per
//! instance its [`NetworkParameters`](muster_api::domain::NetworkParameters), per network the names that can be resolved in it,
//! what had to be refused and why, what an operator should know, and the new allocations.
//!
//! There are no tasks and no channels here: no I/O, no clock, no randomness. The same request and allocations give the same
//! plan, in whatever order the request lists things.
//!
//! # Rules
//! 1. *Networks.* Items of one owner share a network on all nodes; its id is the owner's. Items without an owner share one per
//!    subject. A network has one subnet and one VLAN (1 to 4094) in the whole Unit, and an address on each node where it has
//!    instances. Subnets are cut from a [`SubnetPool`], by default `172.17.0.0/16` to `172.31.0.0/16`, and keep clear of what
//!    nodes use for other things.
//! 2. *Addresses.* Hosts count from `.2`. An instance keeps its address wherever it moves, because the rules of all that may
//!    call it, and so their configuration, name it.
//! 3. *Stability.* What has an address, subnet or VLAN keeps it as long as it is in the request, and gets the same again when
//!    it comes back. What was given back is used for others last, oldest first, so that nobody reaches a newcomer by an
//!    address that was meant for somebody else.
//! 4. *Rules.* Within a network everything may talk. Into another network an instance gets a rule for every instance of an
//!    item that it may call, for the ports that are both allowed to it and exposed by the other: no more, no less.
//! 5. *Names.* An instance is known in its network as `number.subject.item`, without the number if it is 0, by its id, and by
//!    its item's host name; and by each of them with the network's id behind it. In other networks it is known where somebody
//!    may call it.
//!    A name belongs to whoever has it by identity before whoever asks for it as a host name, then to the first by ident.
//!    Instances of one item share its host name.
//!
//! # Invariants
//! * No two networks have overlapping subnets or the same VLAN, no two holders in a network the same address.
//! * A new subnet overlaps no subnet that a node uses. If a node starts to use a subnet that is already given out, nothing is
//!   renumbered (that would restart instances); a [`Note::SubnetInUse`] tells.
//! * Planning again with unchanged instances changes nothing, the allocations included.
//! * One instance that cannot be attached does not keep others from it.
//!
//! # What this crate does not do
//! It configures nothing: nodes do, from what is sent to them. It plans IPv4 only, as the field's controllers do. It does not
//! answer names; `muster-dns` does, with what the plan says.

#![forbid(unsafe_code)]

mod allocations;
mod block;
mod names;
mod outcome;
mod plan;
mod record;
mod request;
mod rules;

pub use self::allocations::Allocations;
pub use self::block::{Block, InvalidBlock, InvalidPool, SubnetPool};
pub use self::outcome::{AttachError, HostTable, NetworkPlan, NodeNetwork, Note, Unmet, VlanId};
pub use self::plan::plan;
pub use self::record::RestoreAllocationsError;
pub use self::request::{
    Endpoint, ForeignSubnets, NetworkKey, NetworkRequest, RequestError, Settings,
};
