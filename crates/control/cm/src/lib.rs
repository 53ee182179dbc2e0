//! The Communication Manager of a Unit: knows its nodes, decides what runs where, and brings it there.
//!
//! This crate joins the parts that decide and act, each a crate of its own, into the daemon `muster-cm`. It decides almost
//! nothing itself.
//!
//! # Entry points
//! * [`program::run`] is the daemon.
//! * [`config::RawConfig`] are the keys of its configuration: `/etc/muster/cm.json` (also TOML or YAML), drop-ins beside it,
//!   `MUSTER_CM__...` variables and `--set`.
//!
//! # Parts
//! | module | joins |
//! |---|---|
//! | `identity` | the identity manager: this daemon's certificate, found late, renewed for ever |
//! | `nodes` | what the identity manager and Service Managers say of nodes (the node info provider); its table is pure |
//! | `follow` | the identity manager's nodes and subjects, and what operators are shown, as they change |
//! | `receivers`, `switchboard` | what nodes say, and who is told |
//! | `placement` | the balancer of updates, over `muster-balance`, `muster-network-plan` and `muster-instance-data` |
//! | `names` | names of instances across nodes, over `muster-dns` |
//! | `unit_nodes` | nodes as updates use them: pausing, the Unit's configuration, what each shall run |
//! | `operations`, `operators`, `logs` | what operators ask for, and where |
//! | `desired_file` | a desired status from a file |
//! | `servers`, `blob_places` | the ports for nodes |
//! | `cloud` | the cloud, over `muster-cloud`: its wishes, and what it is told |
//! | `daemon` | start and end |
//!
//! # Start and end
//! Database, nodes as they were last described, items, instance data, the controller, updates (which go on where they were),
//! operators' socket; then, as soon as there is a certificate, the ports for nodes. Without an answer of the identity manager
//! everything but those ports works, and it says what it waits for. The end goes backwards; streams are told.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | updates ([`muster_desired`]) | commands, what nodes say (bounded to 64) | the seams, a `watch` of progress |
//! | gate, handlers ([`muster_smcontroller`]) | streams of nodes | `receivers`, in order per node |
//! | instance data ([`muster_instance_data`]) | requests (bounded to 64), changes of files | database |
//! | identity | the identity manager | a `watch` of the identity |
//! | follow | the identity manager's nodes and subjects | `switchboard`, a `watch` of subjects |
//! | nodes' ports | the identity, the shutdown | both servers |
//! | names | questions of nodes, a `watch` of the names of the last plan | answers |
//! | desired status file | SIGHUP | updates |
//! | item maintenance ([`muster_items`]) | a timer | what is not needed goes |
//!
//! # Invariants
//! * What a plan gives out (users, addresses) is on disk before a node is told.
//! * Nothing that runs is stopped or restarted because this daemon starts, ends, or is killed at any point.
//! * A file with a desired status is applied when it has changed, not when the daemon starts: a later wish is not undone.
//! * The message of a node is never held up by that node's own answer.
//!
//! # What this crate does not do
//! It knows no image formats, no TLS and no balancing rules. The link to a cloud is a part beside the others: without an
//! address in the configuration there is none.

mod blob_places;
mod cloud;
pub mod config;
mod daemon;
mod desired_file;
mod fault;
mod follow;
mod identity;
mod logs;
mod names;
mod nodes;
mod operations;
mod operators;
mod placement;
pub mod program;
mod receivers;
mod relief;
mod servers;
mod switchboard;
mod unit_nodes;

use muster_fault::Point;

/// Every moment at which a test can kill the daemon, by the part that changes something lasting.
pub fn fault_points() -> Vec<&'static [Point]> {
    vec![
        fault::FAULT_POINTS,
        muster_cloud::FAULT_POINTS,
        muster_desired::FAULT_POINTS,
        muster_instance_data::FAULT_POINTS,
        muster_items::FAULT_POINTS,
        muster_store::FAULT_POINTS,
        muster_unit_config::FAULT_POINTS,
    ]
}
