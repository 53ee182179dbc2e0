//! gRPC between Muster's processes: streams that reconnect, sessions that answer for one peer each,
//! and the assembly of servers and channels.
//!
//! # Entry points
//! * [`StreamBuilder`] starts a client's end of a bidirectional stream that reconnects for ever. Its
//!   owner keeps a [`StreamHandle`] (send, ask, stop) and a [`StreamIncoming`].
//! * [`session::accept`] turns the stream that a server's handler received into a
//!   [`Session`](session::Session) with the same manners, cheap enough to hold ten thousand.
//! * [`server::ServerBuilder`] starts a server; health and reflection are on every one.
//! * [`channel()`] is for plain calls.
//!
//! What a stream carries is said once per end, by a [`Protocol`].
//!
//! # The contract of a stream
//! **Connection.** One connection carries one stream and nothing else, and is never reused for the
//! next. After a failure the link waits (1 to 3 s at first, up to 30 s, evenly random between the
//! bounds) and dials again; the waits start anew only after a stream on which the peer was heard and
//! that lived for 10 s. Keepalive pings go out after 10 s of silence, calls or not, and end the
//! connection when unanswered for 3 s.
//!
//! **Writing.** One task writes. Every new stream begins with the *hello*: the owner's whole state,
//! taken at that moment. Nothing is written before it. The hello is sent without waiting for the
//! peer's headers, which some servers send only with their first message.
//!
//! **Requests.** The wire has no request ids; an answer is known by its type. The rules that make
//! this safe, quarantine of late answers included, are in [`slots`]. A request fails at once when
//! the stream breaks or there is none, and never waits longer than its deadline. Whoever answers a
//! request says which stream it came on ([`StreamHandle::reply`]), so that an answer never reaches
//! a later stream, where it would pass for another.
//!
//! **Delivery.** The wire has no acknowledgements either.
//! 1. *State* is sent again with each hello.
//! 2. *Ephemeral* messages ([`StreamHandle::send`]) are dropped without a stream, and counted.
//! 3. *Durable* messages stay in their owner's [`Spool`] until confirmed. The link reads them in
//!    order and keeps at most a window (256 messages, 1 MiB) unconfirmed. After a break it sends
//!    everything unconfirmed again: at least once, in order, and one break repeats at most a window.
//!
//! **Confirmation.** A durable message is confirmed when a round trip on the same connection has
//! succeeded that began after the message's last byte was in the socket, and the stream was still
//! alive. The byte count comes from a ledger of HTTP/2 frames under the HTTP/2 library: flow
//! control may hold a message back while later requests pass it, so "handed over" proves nothing.
//! The round trip is a health check; any answer will do, "unimplemented" included. Library
//! keepalives cannot serve: their acknowledgements are not visible, and they are left out while the
//! peer talks. Probes are made only while something is unconfirmed, a second after the write or as
//! soon as half the window waits; an idle link costs its keepalive and nothing else.
//!
//! What this proves is that the peer's transport had the message on a living stream. A peer that
//! dies with received messages unhandled loses them; only acknowledgements on the wire could tell.
//! [`Session`](session::Session) does its part: what arrived before a break still reaches its owner.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | link driver, one per stream | [`StreamBuilder::start`] | commands (64), the peer, the spool's answers, timers | incoming messages (64), writes (64), a `watch` of [`LinkStatus`] | on [`StreamHandle::stop`] or when every handle is gone, within `linger` (1 s) |
//! | connection tasks, a few per attempt | link driver | the socket | the stream | with the connection, at once |
//! | spool calls, one at a time, blocking threads | link driver | read or confirm | its result | when done |
//! | session, one per accepted stream | [`session::accept`] | commands (32), the peer, timers | incoming messages (16), writes (2) | with the stream, on `close`, or when every handle is gone |
//! | server | [`server::ServerBuilder::start`] | connections | | on shutdown, within its grace (3 s) |
//!
//! # Invariants
//! * [`link::Link`] and [`slots::Slots`] decide everything and do nothing: no clock, no I/O, no
//!   randomness. The driver does everything and decides nothing.
//! * Every queue is bounded. A full one slows whoever fills it: senders wait, and a peer is held back
//!   by HTTP/2 flow control.
//! * A request is registered before its first byte is written, and is settled exactly once.
//! * Nothing is confirmed that was not written to the current stream before the probe began.
//! * After a stop nothing is written. Stopping waits for no peer longer than its bound.
//!
//! # What this crate does not do
//! It does not store durable messages, decide who may call (`muster-tls` does), retry requests, or
//! know what any message means.

mod channel;
mod command;
mod connection;
mod driver;
mod ledger;
pub mod link;
mod listen;
mod peer;
mod protocol;
pub mod server;
pub mod session;
pub mod slots;
mod socket;
mod spool;
mod stream;

pub use channel::{ChannelConfig, channel};
pub use connection::{BoxFuture, Dial, DialError, Keepalive, Target, TargetError, Transport};
pub use listen::{ListenAddress, ListenAddressError};
pub use protocol::Protocol;
pub use socket::{BindSocketError, bind_socket};
pub use spool::{Spool, SpoolError};
pub use stream::{
    LinkStatus, Received, SendError, StreamBuilder, StreamConfig, StreamHandle, StreamIncoming,
};
