//! The link between `muster-init` and `muster-core`: what the one tells the other, and both ends of it.
//!
//! `muster-init` outlives every `muster-core`. It is the parent of all services, keeps the descriptors
//! that must not die with a core, and starts the next core when one crashes, hangs or is upgraded. The
//! link is a pair of `AF_UNIX` `SOCK_SEQPACKET` sockets, made anew for each core, which finds its end by
//! [`LINK_VARIABLE`].
//!
//! | direction | messages |
//! |---|---|
//! | core to init, [`ToInit`] | `Hello`, `Store`, `Drop`, `Adopted`, `Ack`, `Pong`, `Upgrade`, `Shutdown` |
//! | init to core, [`ToCore`] | `Begin`, `Stored`, `Exits`, `End`, `Ping`, `Signal`, `Refused` |
//!
//! # The life of one link
//! ```text
//! init                                            core
//!   | <-------------------------------------- Hello |  CoreLink::take_from_env() is called
//!   | Begin, Stored*, Exits*, End ----------------> |  ... and returns
//!   |        (init does not reap)                   |  adopts what runs: pidfd_open() is safe
//!   | <------------------------------------ Adopted |
//!   | Exits, Ping, Signal, Refused ---------------> |
//!   | <----------------------- Store, Drop, Ack ... |
//! ```
//! Exits that a former core never acknowledged come before `End`: their pids may have been given to other
//! processes, so a core must look at [`Begun::exits`] before it opens any pid that it finds in its state.
//!
//! # Entry points
//! [`CoreLink`] is core's end: blocking while it takes over, then meant for an event loop. [`InitLink`] is
//! init's end. Neither has tasks or threads of its own.
//!
//! # Who may block
//! Core's sends block when the socket is full; init's never do. That cannot deadlock, because init always
//! reads. It makes core's side free of queues: when [`CoreLink::store`] has returned, the kernel holds the
//! descriptors, and init gets them even if core dies with the next instruction.
//!
//! # Form of a message
//! One datagram: the kind as `u16`, then fields, all little-endian. Texts are a `u16` length and UTF-8.
//! Either side may be newer than the other, so
//! - kinds that are not known are skipped,
//! - new fields are appended, and bytes after the known fields are ignored,
//! - meaning and position of a field never change.
//!
//! # Invariants
//! - A message has at most [`MAX_MESSAGE`] bytes and [`MAX_DESCRIPTORS`] descriptors, a name at most
//!   [`MAX_NAME`] bytes. Longer lists are several messages.
//! - Decoding allocates nothing and never panics, whatever the bytes.
//! - Descriptors that are received are close-on-exec; those that nobody takes are closed.
//! - Messages are delivered in the order of sending, and those sent before core's death are all received.
//!
//! # What this crate does not do
//! It decides nothing: when a core is started, killed or rolled back is the business of `muster-init`, and
//! what the kept names mean is core's. There is no encryption and no authentication: both ends of a socket
//! pair are in the hands of those who were given them.

mod bytes;
mod channel;
mod core_link;
mod init_link;
mod quiet;
mod to_core;
mod to_init;

pub use bytes::{DecodeError, NameError, Names, NamesIter};
pub use channel::{Descriptors, Inbox};
pub use core_link::{Begun, CoreLink, FromInit, SendError, TakeError};
pub use init_link::{InitLink, Progress, Received};
pub use quiet::give_code_back;
pub use to_core::{Begin, Cause, Exit, Exits, ExitsIter, Outcome, Signal, ToCore};
pub use to_init::{Selector, ShutdownKind, ToInit, Upgrade};

/// The environment variable that names the descriptor of core's end of the link.
pub const LINK_VARIABLE: &str = "MUSTER_LINK_FD";

/// What this version of the crate speaks; each side tells the other.
pub const PROTOCOL_VERSION: u32 = 1;

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 8192;

/// The most descriptors in one message; the kernel's own limit is 253.
pub const MAX_DESCRIPTORS: usize = 250;

/// The longest name of a kept descriptor, in bytes.
pub const MAX_NAME: usize = 300;

/// The longest path in an [`Upgrade`] and argument of a shutdown, in bytes.
pub const MAX_TEXT: usize = 4096;
