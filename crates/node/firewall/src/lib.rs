//! Who may reach whom: the packet filter of instances, and the meters of their traffic.
//!
//! Each instance of a node has an address on a bridge. This crate turns what the controller says about an instance into rules of the
//! kernel, keeps them in step with what is wanted, and takes them away.
//!
//! ```no_run
//! use muster_firewall::{Change, Firewall, InstanceId, InstancePolicy, LinkName, NetworkPolicy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let network = NetworkPolicy::new(
//!     LinkName::new("br-cameras")?,
//!     "172.17.0.0/16".parse()?,
//!     "172.17.0.1".parse()?,
//! )?;
//! let policy = InstancePolicy::new(InstanceId::new("0f6c2f44")?, &network, "172.17.0.2".parse()?)?
//!     .same_subnet(true)
//!     .expose([("tcp".parse()?, "8080".parse()?)])?;
//! let firewall = Firewall::detect()?;
//! firewall.apply(&[Change::PutNetwork(network), Change::PutInstance(policy)])?;
//! # Ok(())
//! # }
//! ```
//!
//! # Entry points
//! * [`Firewall`]: [`apply`](Firewall::apply), [`reconcile`](Firewall::reconcile), [`installed`](Firewall::installed),
//!   [`counters`](Firewall::counters), [`remove_instances`](Firewall::remove_instances), [`clear`](Firewall::clear).
//! * [`NetworkPolicy`] and [`InstancePolicy`] say what is wanted, [`Change`] what shall become different.
//! * [`plugin`] is the CNI plugin `muster-firewall`, which does the same at the end of a chain of plugins.
//! * [`Backend`] is implemented by [`Nft`] and, where that is all there is, [`Iptables`].
//!
//! # What is let through
//! | packet | verdict |
//! |---|---|
//! | of a connection that was let through, or an error about one, as long as the instance has rules | passes |
//! | instance to an address of its subnet | passes if both have `same_subnet`, or both ends permit it as below |
//! | instance to another instance or a local network | passes if the sender is allowed that connection, and the receiver exposes that port |
//! | instance to the outside (not [`LOCAL_NETWORKS`]) | passes, masqueraded |
//! | outside to an instance | passes if the instance exposes that port |
//! | instance to the node, at its address on the instance's bridge, port 53 by UDP or TCP | passes |
//! | instance to any address of the node | passes if it is allowed that connection |
//! | from or to an address on a bridge that has no rules | dropped |
//! | IPv6 on a bridge | dropped; instances have IPv4 addresses |
//! | everything that has no bridge of Muster's at either end, and what the node itself sends | not looked at |
//!
//! # Instances of one bridge
//! What a bridge forwards between its ports does not pass the rules of the IP layer, and the bridge's own hooks know no
//! connections unless the kernel was built for that. So the ports of a bridge are isolated from each other and the node
//! answers for every address of the subnet: traffic between two instances of one network passes through the node's IP layer,
//! and the same rules decide. Every port that a bridge has when one of its instances is put is isolated, also one that leads to
//! other nodes.
//!
//! # Meters
//! A [`Meter`] counts what an instance exchanges with the outside, after all filters, and drops it when told so. The node has one of its own, which counts its own traffic and that of all
//! instances. Counters begin at nought when a meter is made: `muster-traffic` makes lasting amounts of them.
//!
//! # Invariants
//! * Only the table `inet muster`, or chains called `MUSTER-*` and one jump to each from the chain it belongs to, is ever
//!   changed.
//! * A set of changes happens in one step or not at all (with iptables: per table). There is no moment in which an instance that
//!   stays has no rules.
//! * The kernel is the only memory: what is installed is read back from it, so a restart of anything forgets nothing.
//! * Changes of different processes are kept apart by a lock ([`LOCK_FILE`]).
//! * Names are checked before they stand in a rule set, so none can carry syntax into it.
//! * With nftables, a packet's cost does not depend on the number of instances.
//!
//! # What this crate does not do
//! It makes no links, addresses, routes or port mappings, and does not turn forwarding on for links other than its bridges. It runs no tasks: every call
//! blocks for some milliseconds. An instance with `CAP_NET_ADMIN` or `CAP_NET_RAW` can send under the address of
//! another one of its network; those without, which is how instances run, cannot. Other tables may still drop what this one lets through.

mod backend;
mod bridge;
mod firewall;
mod iptables;
mod model;
mod names;
mod netlink;
mod nft;
pub mod plugin;
mod policy;
mod rules;
mod subnet;
mod tool;

pub use self::backend::{Backend, FirewallError};
pub use self::bridge::SeparatePortsError;
pub use self::firewall::{Firewall, LOCK_FILE};
pub use self::iptables::Iptables;
pub use self::model::{Amounts, Change, Counters, Desired, Installed, Meter, plan};
pub use self::names::{InstanceId, InvalidName, LinkName};
pub use self::nft::Nft;
pub use self::policy::{InstancePolicy, MAX_RULES, NetworkPolicy, PolicyError};
pub use self::subnet::{Ipv4Subnet, LOCAL_NETWORKS, is_local};
pub use self::tool::ToolError;
