//! The SM Controller: the Communication Manager's end of `servicemanager.v5`.
//!
//! Every node's Service Manager opens one stream, `RegisterSM`, to the Communication Manager. This crate serves it: it knows
//! which nodes are connected, carries commands to them, matches their answers, and hands everything else that they say to
//! whoever it concerns.
//!
//! # Entry points
//! * [`SmController::new`] takes [`Parts`] and [`Limits`]; the future it gives is spawned by the daemon.
//! * [`SmController::serve`] starts a server (`:8093` is [`ListenAddress`](muster_rpc::ListenAddress) for 0.0.0.0:8093) behind a
//!   [`ServerTls`](muster_tls::ServerTls): mutual TLS, or insecure with an explicit [`Insecure`](muster_tls::Insecure).
//!   [`SmController::service`] is for a server that carries further services.
//! * [`NodeConfigs`], [`InstanceRunner`], [`MonitoringProvider`], [`NodeNetworks`] and [`LogProvider`] are what the rest of the
//!   Communication Manager depends on; [`SmController`] is all of them. A node that is not connected is
//!   [`NodeCommandError::NotFound`].
//! * [`Receivers`] and [`BlobUrls`] are what it implements.
//! * `testing`, with the feature of that name, has simulated nodes for measurements.
//!
//! # What a stream goes through
//! 1. *Accepted.* The peer's certificate says that it is the Service Manager of some node (a SPIFFE id or a mapped identity). A
//!    node in quarantine is refused here. The state of the cloud is sent at once, and again on every change.
//! 2. *Named.* The first message is `SMInfo`, within 10 s, and names the node of the certificate.
//! 3. *Contested*, if the node has a stream already: that one is pinged (with questions that change nothing). If it answers
//!    within 1 s the newcomer is refused and reported: two nodes have one id. If it does not, it is closed, emptied, and the
//!    newcomer takes its place: a node that was rebooted is not locked out.
//! 4. *Admitted.* Commands reach it, the receivers are told of the node, then get what it says, in order.
//! 5. *Left.* The node is taken out, its receivers learn that it is gone, and only then may its next stream be admitted.
//!
//! # Nodes that misbehave
//! | what it does | what becomes of it |
//! |---|---|
//! | sends more than its [`Limits::messages`], or than receivers take | is slowed down: its queue fills, then HTTP/2 flow control holds it back |
//! | does not read | commands wait for [`Limits::stall`], then fail, and it is cut off |
//! | sends what cannot be decoded, is too long, or begins with something else than `SMInfo` | is cut off |
//! | sends more messages without sense than [`Limits::nonsense`] | is cut off; before that each is logged and thrown away |
//! | claims another node's id | is cut off |
//!
//! Whoever is cut off for what it did is kept out for a while that doubles each time, and is reported
//! ([`NodeReceiver::incident`]). Nothing of one node waits for another.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | gate, one | the daemon, from [`SmController::new`] | requests of handlers (1024) | verdicts, the routes | after [`SmController::stop`], with the last stream |
//! | handler, one per stream | [`SmEndpoint`] | the session's messages ([`Limits::incoming`]), a `watch` of the cloud's state | receivers; the session's commands ([`Limits::outgoing`]) | with the stream; at a stop within [`Limits::stop`] |
//! | session, one per stream | [`muster_rpc::session::accept`] | the wire, commands | the wire, messages, answers | with the stream |
//! | ping, one per contested node | gate | the answer, or [`Limits::ping`] | a request to the gate | within that time |
//!
//! # Invariants
//! * A node has at most one admitted stream, and what it said on two streams is never mixed up.
//! * A command is settled exactly once, within [`Limits::reply`] or [`Limits::stall`]. An answer is matched by its type to the
//!   one request of that type that was written; the others of that type wait. A late answer answers nothing
//!   ([`muster_rpc::slots`]).
//! * `claims`, `quarantine` and `bucket` decide, without clock or I/O.
//! * Every queue is bounded; the number of nodes is not.
//! * Certificates change under the running server: the next connection gets the new one, and streams go on
//!   ([`muster_tls::CertStore`]).
//!
//! # What this crate does not do
//! It keeps nothing on disk and remembers nothing of a node that is gone. It does not decide what runs where, does not repeat
//! commands, and does not serve `ProxyService`.

mod bucket;
mod claims;
mod controller;
mod endpoint;
mod gate;
mod handler;
mod interfaces;
mod limits;
mod protocol;
mod quarantine;
mod receivers;
mod refusal;
mod shared;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::bucket::Rate;
pub use self::controller::{Parts, SmController};
pub use self::endpoint::SmEndpoint;
pub use self::interfaces::{
    CommandKind, Commanded, InstanceRunner, LogProvider, LogQuery, MonitoringProvider,
    NodeCommandError, NodeConfigs, NodeNetworks,
};
pub use self::limits::Limits;
pub use self::protocol::ControllerEnd;
pub use self::receivers::{
    AlertReceiver, BlobUrls, Incident, InstanceStatusReceiver, LogReceiver, MonitoringReceiver,
    NodeReceiver, Receivers, ResolveBlobError, Taken,
};
pub use self::refusal::StreamRefused;
