//! The nodes of a system as its Main Node knows them, and the stream between a Secondary Node and it.
//!
//! A Secondary Node opens one stream, `RegisterNode`, to its Main Node: on the public port while it is
//! unprovisioned, on the protected port, with its certificate, from then on. It describes itself there
//! and answers what the Main Node asks. The Main Node remembers every node, knows who is connected, and
//! shows both to whoever subscribes.
//!
//! # Entry points
//! * [`Registry::open`] on the Main Node. Its daemon hands every stream to [`Registry::accept`], asks
//!   nodes for things with [`Registry::command`] (an empty id is the Main Node itself), and reads
//!   [`Registry::ids`], [`Registry::info`] and [`Registry::subscribe`]. The store needs [`SCHEMA`].
//! * [`JoinLink::start`] on a Secondary Node.
//! * [`NodeCommands`] is what the daemon implements once, for local callers and for the stream.
//! * [`CommandKind::check`] is the table of what is allowed in which state. A node checks for itself
//!   too: local callers do not come through the registry.
//! * [`table::NodeTable`] decides everything about nodes and streams, and does nothing.
//!
//! # What a stream goes through
//! 1. *Accepted.* On the public port only so many streams at a time. A stream that does not say within
//!    10 s whose it is is closed.
//! 2. *Joined.* The first description names the node. On the protected port it must be the one that the
//!    certificate names. On the public port it must be unprovisioned and not known as a member, and
//!    joins are limited in number per time: who has no certificate can neither pass for a member nor
//!    fill memory or disk. Members that lost their certificate are let in again after
//!    [`Registry::forget`].
//! 3. *Contested.* If the node has a stream already, that one is asked a question that changes nothing.
//!    When it answers, the newcomer is refused: two nodes have one id. When it does not, the newcomer is
//!    the same node after a reboot, and takes its place. A node that is carrying out a command answers
//!    nothing else, so then the newcomer is refused and comes again; if the node is gone, the keepalive
//!    ends its stream within 13 s. A stream with a certificate always replaces one without.
//! 4. *Moved.* An answer that changes the node's port (finished provisioning, deprovisioned) makes the
//!    Main Node end the stream, and by that the node knows that its answer has arrived.
//! 5. *Left.* The HTTP/2 keepalive of the server (ping after 10 s, 3 s to answer) ends a stream whose
//!    peer is silent. The node stays known, as disconnected.
//!
//! # Connection state on the wire
//! `NodeInfo` has no field for it. `state` stays what it is, and `error` becomes a timeout whose text
//! begins with [`NOT_CONNECTED`]; see [`NodeRecord::to_wire`] and [`is_connected`].
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | registry, one | [`Registry::open`] | requests (256), the local node's description, its writes, one timer | writes, one at a time; the published nodes and a `watch` of their number | on [`Registry::shutdown`], or with the last handle and stream |
//! | node stream, one per stream | [`Registry::accept`] | the session's messages (2) | requests | with the stream |
//! | command, one per command | registry | the node's answer, or the deadline | a request | at the deadline at the latest |
//! | join link, one | [`JoinLink::start`] | the node's description, commands (8), the stream's status | descriptions and answers | on [`JoinLink::stop`] or drop |
//! | command at work, one at a time | join link | | its answer | when it is done |
//!
//! # Invariants
//! * A node has at most one stream, and a stream belongs to at most one node.
//! * Nothing that an unauthenticated peer says changes what is known of a member.
//! * What is shown is stored: observers, and whoever gave a command that changed a state, learn of it
//!   after it is on the disk. When it cannot be stored it is held back and tried again.
//! * The first change of a node is shown at once, further ones at most once per interval (2 s), and the
//!   last one always. Changes that a command made do not wait.
//! * Every queue is bounded. Observers have none: a slow one gets the latest state of each node.
//! * A command is answered, refused or given up, exactly once, within its deadline (1 min; 5 min for
//!   those that start, finish or undo provisioning).
//!
//! # What this crate does not do
//! It opens no port and checks no certificate (the daemon's servers do), provisions nothing, does not
//! retry commands, and limits no number of members. Forgotten nodes are not announced: the wire has no
//! word for it, and they are missing from [`Registry::ids`].

mod command;
mod fault;
mod join;
mod limits;
mod protocol;
mod published;
mod record;
mod refusal;
mod registry;
#[cfg(test)]
mod samples;
mod stored;
pub mod table;

pub use command::{
    Answer, Command, CommandDeadlines, CommandKind, NodeCommands, WrongState, answered_failure,
};
pub use fault::FAULT_POINTS;
pub use join::{JoinConfig, JoinLink, JoinPort, JoinStatus, JoinTargets};
pub use limits::RegistryLimits;
pub use protocol::{MainEnd, NodeEnd};
pub use published::NodeChanges;
pub use record::{Connection, NOT_CONNECTED, NodeRecord, is_connected};
pub use refusal::JoinRefused;
pub use registry::{ForgetNodeError, Registry, RouteError};
pub use stored::{LoadNodesError, SCHEMA};
pub use table::{ForgetError, PeerKind, RouteRefused};
