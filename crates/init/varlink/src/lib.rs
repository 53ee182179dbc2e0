//! The varlink protocol, for daemons that own their epoll loop and for programs that ask them.
//!
//! Varlink is JSON objects, each ended by a NUL byte, over a unix socket: a call names a method and its parameters, the
//! answer carries parameters or the name of an error. A call with `more` is answered many times.
//!
//! # Map
//! - [`frame`] and [`message`]: bytes to calls and replies to bytes. No sockets: what is pushed in comes out.
//! - [`Connection`]: one client of a daemon over a non-blocking socket, with descriptors and the peer's identity.
//! - [`Server`]: the listening socket and its connections behind **one** descriptor that a foreign epoll loop watches.
//! - [`admission`]: who gets a place when places are short. Pure.
//! - [`Client`]: the blocking side.
//! - [`service`]: `org.varlink.service`, which every daemon answers, and the errors that all interfaces share.
//! - [`idl`]: interface descriptions as values: parse, print, and check JSON against them.
//!
//! # A daemon
//! ```no_run
//! # fn now() -> std::time::Duration { std::time::Duration::ZERO }
//! # fn wait_for(_: std::os::fd::BorrowedFd<'_>, _: Option<std::time::Duration>) {}
//! # fn answer(_: &muster_varlink::Call) -> muster_varlink::Reply { muster_varlink::Reply::empty() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::os::fd::AsFd;
//! use muster_varlink::{Server, ServerOptions};
//!
//! let listener = std::os::unix::net::UnixListener::bind("/run/example")?;
//! let mut server = Server::new(listener.into(), ServerOptions::default())?;
//! loop {
//!     wait_for(server.as_fd(), server.next_deadline());
//!     server.turn(now());
//!     while let Some(call) = server.next_call(now()) {
//!         let reply = answer(&call);
//!         server.reply(call.id, reply)?;
//!     }
//!     server.flush(now());
//! }
//! # }
//! ```
//! There are no tasks and no threads: everything happens inside the calls above, and none of them waits. A reply may be
//! given at any later time; its [`CallId`] is refused once the client is gone.
//!
//! # Invariants
//! - Calls of one connection are answered in the order in which they came; the next one is handed out when the one before
//!   it has its last reply and most of that is sent. While a `more` call is open, later calls wait in the socket.
//! - A connection holds at most one message that it reads, one buffer of what follows, and [`Limits::queued_bytes`] of
//!   what it sends. Nothing grows by what a client does or does not do.
//! - Replies that unprivileged clients do not read are bounded for all of them together; then their calls wait, and only theirs.
//! - A message begun and not finished, and a reply not read, end the connection after a while.
//! - Whatever a client sends, nothing panics and nobody else waits; a client that is cut off because of what it sent is told why.
//! - A whole call is handed out even if its client has gone meanwhile: it was asked for.
//! - Descriptors belong to the last message that has bytes in the chunk that they came with. So a sender starts the
//!   `sendmsg` that carries them with their message and puts no later message into it, as [`Client`] and [`Connection`] do.
//!
//! # Deliberately absent
//! Protocol upgrades (a call that asks for one is an ordinary call that the daemon refuses), transports other than unix
//! stream sockets, generated code: types are written by hand with serde, and a test holds them against the description.

#![deny(unsafe_code)]

pub mod admission;
mod client;
mod connection;
pub mod frame;
pub mod idl;
mod json;
pub mod message;
mod peer;
mod server;
pub mod service;
mod socket;

pub use client::{CallError, Client, ConnectError, RemoteError, Replies};
pub use connection::{Connection, ConnectionEnd, Interest, Limits, ReplyError};
pub use message::{Call, CallMode, MalformedMessage, Parameters, Reply};
pub use peer::Peer;
pub use server::{
    CallId, ConnectionId, Counters, IncomingCall, OpenServerError, Server, ServerOptions,
};
