//! Names on the networks of instances.
//!
//! Every network of a node has a name server on the node's own address in it. It answers for the names of instances and hosts
//! that it was told. Names of the network on other nodes it asks the controller's servers for, and everything else the node's
//! own. The controller's server has the names of all networks, and tells each network its own.
//!
//! # Entry points
//! * [`NameServer`] is what the network manager uses: put a network, set its hosts, remove it. All are idempotent.
//! * [`Resolver`] is the implementation inside this process. [`Resolver::new`] gives the handle and its [`ResolverTask`], which
//!   the daemon spawns. A server program beside this process could stand behind the same trait.
//! * [`Hosts`] are the names of a network, [`NetworkSettings`] how they are served, [`upstreams`] reads whom the node itself asks.
//! * [`UnitServer`] is the controller's: it serves the newest [`UnitNames`] of a watch channel.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | [`ResolverTask::run`], one | commands (bounded to 32), each with a channel for its outcome | starts and ends servers |
//! | a server for each network | packets and connections; hosts by a watch channel | answers; questions to others |
//! | [`UnitServer::run`] | packets and connections; names by a watch channel | answers; questions to upstreams |
//! | questions under way, at most [`Limits::questions`] for a server; connections, at most [`Limits::connections`] | | answers |
//!
//! Dropping the task ends all of them. New hosts count from the next question on; no socket is touched for that.
//!
//! # What the server of a network answers
//! | question | answer |
//! |---|---|
//! | from an address outside of the network | none: the server is of no use for floods |
//! | a name that is known, `A`, `AAAA` or `ANY` | its addresses, for [`TTL_SECONDS`] |
//! | a name that is known, any other kind | no records |
//! | `PTR` of an address that is known | the name it was given first |
//! | own names: in one of the network's zones, of one label, or of an address of the network | what the controller's servers say; without any, no such name |
//! | everything else | what the controller's servers say, unless they refuse; then what an upstream says |
//! | more questions under way than the limit, or nobody answers | server failure |
//!
//! Known names are answered at once, whoever else is away. What a controller's server said of its own names is remembered
//! (256 answers) and given while it says nothing, so that names of other nodes outlive the controller. A name that instances of
//! several nodes share is answered with those of the own node.
//!
//! # Who sees which names of a Unit
//! The server of a network tells the controller's for which network it asks, by the client subnet option of DNS, and tells
//! nobody else. An asker is shown the names of the network that its address is in, or else of the network that it says it asks
//! for: whoever has an address in a network cannot ask for another. Whoever is in no network that can be told, such as the
//! server of a foreign node, is shown names that one network of the Unit has; a name that two have is not answered. This keeps
//! names apart, and is no wall: who may reach whom is up to the packet filter.
//!
//! # Invariants
//! * Packets are untrusted: they are read without panics, without following compression, and only as far as needed.
//! * A question goes to another server from a fresh port, under a random id, with random capitals; an answer counts only if
//!   all of that comes back. A server that does not keep capitals is asked by TCP.
//! * Own names are never asked for outside.
//! * An answer is never longer than the client said it takes, and never than 1232 bytes by UDP; the rest is to be had by TCP.
//! * Times, connections, questions under way, names and remembered answers are bounded.
//!
//! # What this crate does not do
//! It remembers no answers of the outside, does not validate them (their signatures pass through), does not transfer zones, and
//! does not iterate from the root: it needs an upstream for the outside.

mod decide;
mod extension;
mod forward;
mod message;
mod name;
mod records;
mod remembered;
mod resolv_conf;
mod resolver;
mod server;
mod unit;
mod upstream;

pub use self::decide::NetworkSettings;
pub use self::name::{InvalidName, Name};
pub use self::records::{Clients, Hosts, MAX_NAMES, TTL_SECONDS};
pub use self::resolv_conf::upstreams;
pub use self::resolver::{NameServer, Resolver, ResolverTask, ServeNamesError};
pub use self::server::Limits;
pub use self::unit::{UnitNames, UnitServer, UnitSettings};

/// Answers a packet from what is known, as a server would; `None` when another server would be asked, or nobody answered.
///
/// For the fuzzer, which has no network.
#[doc(hidden)]
pub fn answer_packet(settings: &NetworkSettings, hosts: &Hosts, packet: &[u8]) -> Option<Vec<u8>> {
    let query = match decide::read(packet) {
        Ok(query) => query,
        Err(answer) => return answer,
    };
    let known = decide::OnNode { settings, hosts };
    let elsewhere = decide::Elsewhere {
        for_own: !settings.controllers.is_empty(),
        for_others: !settings.upstreams.is_empty(),
        otherwise: message::Code::NoSuchName,
    };
    match decide::decide(&query, &known, elsewhere, message::Transport::Udp) {
        decide::Decision::Answer(answer) => Some(answer),
        decide::Decision::Forward(_) => None,
    }
}
