//! Names on the networks of instances.
//!
//! Every network of a node has a name server on the node's own address in it. It answers for the names of instances and hosts
//! that it was told, and passes all other questions on to the node's own servers.
//!
//! # Entry points
//! * [`NameServer`] is what the network manager uses: put a network, set its hosts, remove it. All are idempotent.
//! * [`Resolver`] is the implementation inside this process. [`Resolver::new`] gives the handle and its [`ResolverTask`], which
//!   the daemon spawns. A server program beside this process could stand behind the same trait.
//! * [`Hosts`] are the names of a network, [`NetworkSettings`] how they are served, [`upstreams`] reads whom the node itself asks.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | [`ResolverTask::run`], one | commands (bounded to 32), each with a channel for its outcome | starts and ends servers |
//! | a server for each network | packets and connections; hosts by a watch channel | answers; questions to upstreams |
//! | questions under way, at most [`Limits::questions`] for a network; connections, at most [`Limits::connections`] | | answers |
//!
//! Dropping the task ends all of them. New hosts count from the next question on; no socket is touched for that.
//!
//! # What is answered
//! | question | answer |
//! |---|---|
//! | from an address outside of the network | none: the server is of no use for floods |
//! | a name that is known, `A`, `AAAA` or `ANY` | its addresses, for [`TTL_SECONDS`] |
//! | a name that is known, any other kind | no records |
//! | `PTR` of an address that is known | the name it was given first |
//! | a name in one of the network's zones, an address of the network, or a name of one label, that nobody has | no such name |
//! | everything else | what the first upstream says that says something in time |
//! | more questions under way than the limit, or no upstream answers | server failure |
//!
//! # Invariants
//! * Packets are untrusted: they are read without panics, without following compression, and only as far as needed.
//! * A question goes to an upstream from a fresh port, under a random id, with random capitals; an answer counts only if
//!   all of that comes back. An upstream that does not keep capitals is asked by TCP.
//! * An answer is never longer than the client said it takes, and never than 1232 bytes by UDP; the rest is to be had by TCP.
//! * Times, connections, questions under way and names are bounded.
//!
//! # What this crate does not do
//! It remembers no answers of others, does not validate them (their signatures pass through), does not transfer zones, and
//! does not iterate from the root: it needs an upstream for the outside.

mod message;
mod name;
mod records;
mod resolv_conf;
mod resolver;
mod server;
mod upstream;

pub use self::name::{InvalidName, Name};
pub use self::records::{Clients, Hosts, MAX_NAMES, NetworkSettings, TTL_SECONDS};
pub use self::resolv_conf::upstreams;
pub use self::resolver::{NameServer, Resolver, ResolverTask, ServeNamesError};
pub use self::server::Limits;

/// Answers a packet from what is known, as a server would; `None` when another server would be asked, or nobody answered.
///
/// For the fuzzer, which has no network.
#[doc(hidden)]
pub fn answer_packet(settings: &NetworkSettings, hosts: &Hosts, packet: &[u8]) -> Option<Vec<u8>> {
    match records::decide(settings, hosts, packet, message::Transport::Udp) {
        records::Decision::Answer(answer) => Some(answer),
        records::Decision::Forward(_) | records::Decision::Ignore => None,
    }
}
