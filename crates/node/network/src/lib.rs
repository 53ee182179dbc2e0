//! The networks of a node: a bridge each, a namespace per instance, addresses, names, rules, limits.
//!
//! The controller says which networks a node takes part in, and for each instance its address, whom it may call and which
//! name servers there are. This crate makes that true: it makes bridges and VLANs, runs CNI plugins for each instance, has
//! rules and names follow, and removes all of it when it is not wanted any more.
//!
//! # Entry points
//! * [`NetworkManager::open`] with [`NetworkSettings`] and a store that has [`SCHEMA`] gives the handle and its task.
//! * [`NetworkManager::update`] takes the controller's list of networks.
//! * As `muster_launcher::seams::Network` the handle is what the launcher asks for each instance.
//!
//! # The task
//! One future, spawned by the daemon before the launcher starts, since that asks at once. In: requests (bounded to 64), each
//! with a channel for its answer. It first takes over what an earlier run has made, and looks again every minute whether all of
//! it is still there, since others may clear the packet filter. It carries requests out: up to four
//! instances at a time, one job per instance, and alone what touches everything (`gate`, pure). It runs the name servers of all
//! networks, too. It may be dropped at any time.
//!
//! # What is made
//! | for | what | by |
//! |---|---|---|
//! | a network | bridge `mbr` + hash, the node's address on it | netlink |
//! | a network with a VLAN | link `mvl` + hash on the configured uplink | netlink |
//! | a network | masquerade, rules of the bridge | `muster-firewall` |
//! | a network | name server on the node's address, port 53 | `muster-dns` |
//! | an instance | namespace, a file in `RUN_FOLDER/netns` | here |
//! | an instance | loopback, link and address, speeds | stock CNI plugins |
//! | an instance | rules | CNI plugin `muster-firewall` |
//! | an instance | names: host name, id, `instance.subject.item`, `subject.item` of the first; each also below the network's id | `muster-dns` |
//!
//! # More than one node
//! A network of several nodes has an uplink on each: a VLAN, or a link of its own. It is not a port of the bridge. The node
//! routes between the two and answers for addresses of the other side (proxy ARP), so that the same rules see all traffic; it
//! answers on the uplink for its own instances only. Other nodes may use a plain bridge.
//!
//! # What is kept
//! Networks, and the place of each instance, are in the database before anything of them is made, and leave it when all of it is
//! gone. After a restart networks are brought up again where something is missing, instances stay as they are, and
//! `keep_only` removes what belongs to nobody: records, namespaces, results of plugins, rules, links, names. A
//! namespace outlives the daemon.
//!
//! # Invariants
//! * Deciding is pure: which networks to have (`plan`), which steps lead to a network's links (`links`), what plugins are told
//!   (`instance`), names (`names`), order of jobs (`gate`).
//! * What fails is undone, and what cannot be undone stays written down and is tried again.
//! * Only links with derived names, routes marked as Muster's, and rules of Muster's table are changed. The exceptions are
//!   an uplink that was given to a network as a whole, which gets the node's address, and forwarding, which is switched on.
//! * No instance gets an address that another one still has.
//!
//! # What it needs
//! The plugins `loopback`, `bridge`, `static` and `bandwidth`, Muster's own `muster-firewall`, and `nft` or iptables. Whoever
//! starts instances must see the daemon's mounts: it runs in the node's mount namespace, or in one that shares them.
//!
//! # What this crate does not do
//! It plans no addresses, does not count traffic (`muster-traffic`), maps no ports of the node, and speaks IPv4 only: instances have
//! no IPv6. Broadcasts and multicasts do not pass between instances.

mod directory;
mod error;
mod fault;
mod gate;
mod instance;
mod links;
mod manager;
mod names;
mod namespace;
mod netlink;
mod node_network;
mod plan;
mod records;
mod settings;
mod worker;

pub use self::directory::DirectoryError;
pub use self::error::{
    AttachError, DetachError, ListFailure, NetworkError, NetworkFault, NetworksGone,
    OpenNetworksError, UpdateNetworksError,
};
pub use self::fault::FAULT_POINTS;
pub use self::instance::PlanError;
pub use self::links::LinkConflict;
pub use self::manager::NetworkManager;
pub use self::namespace::NamespaceError;
pub use self::netlink::LinkError;
pub use self::node_network::{InvalidNetwork, NoUplink, NodeNetwork};
pub use self::plan::NetworkConflict;
pub use self::records::SCHEMA;
pub use self::settings::{InvalidSetting, LinkName, NetworkSettings, PLUGIN_FOLDERS, SameSubnet};
/// The moments at which tests kill it while it has plugins run.
pub use muster_cni::FAULT_POINTS as PLUGIN_FAULT_POINTS;
