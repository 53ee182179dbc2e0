//! Init's end of the link: never blocks, allocates nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};

use crate::bytes::{DecodeError, Payload};
use crate::channel::{self, Descriptors, Inbox};
use crate::to_core::{self, Begin, Exit, Signal};
use crate::to_init::ToInit;

/// Init's end of the link to one core.
#[derive(Debug)]
pub struct InitLink {
    socket: OwnedFd,
}

/// Whether a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// It was.
    Sent,
    /// It must be sent again when the link is writable.
    Later,
}

/// What there was to receive.
#[derive(Debug)]
pub enum Received<'a> {
    /// A message, with its descriptors.
    Message(ToInit<'a>, Descriptors<'a>),
    /// A message of a newer core that means nothing to this init.
    Unknown,
    /// A message that could not be understood.
    Malformed(DecodeError),
    /// Nothing yet.
    Nothing,
    /// Core has closed its end, and everything that it had sent has been received.
    Closed,
}

impl InitLink {
    /// Makes a link: init's end, and the descriptor to give to core. Both are close-on-exec; core's end
    /// blocks.
    pub fn pair() -> Result<(Self, OwnedFd)> {
        let (own, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self { socket: own }, other))
    }

    /// Says why core was started.
    pub fn begin(&self, begin: &Begin) -> Result<Progress> {
        self.send(&to_core::begin(begin))
    }

    /// Hands back as many of the kept descriptors as one message can hold; says how many these were.
    /// None when the link is full.
    pub fn stored<'f, 'n>(
        &'f self,
        named: impl Iterator<Item = (&'n str, BorrowedFd<'f>)>,
    ) -> Result<Option<usize>> {
        let payload = to_core::stored();
        let sent = channel::send_named(self.socket.as_fd(), payload, named, SendFlags::DONTWAIT);
        match sent {
            Ok(taken) => Ok(Some(taken)),
            Err(error) if is_full(error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says that everything has been handed back.
    pub fn end(&self) -> Result<Progress> {
        self.send(&to_core::end())
    }

    /// Reports as many of the exits as one message can hold; says how many these were. None when the
    /// link is full.
    pub fn exits(&self, exits: impl Iterator<Item = Exit>) -> Result<Option<usize>> {
        let (payload, taken) = to_core::exits(exits);
        if taken == 0 {
            return Ok(Some(0));
        }
        Ok(match self.send(&payload)? {
            Progress::Sent => Some(taken),
            Progress::Later => None,
        })
    }

    /// Asks whether core is alive.
    pub fn ping(&self) -> Result<Progress> {
        self.send(&to_core::ping())
    }

    /// Passes a signal on.
    pub fn signal(&self, signal: Signal) -> Result<Progress> {
        self.send(&to_core::signal(signal))
    }

    /// Says how many descriptors could not be kept.
    pub fn refused(&self, count: u32) -> Result<Progress> {
        self.send(&to_core::refused(count))
    }

    /// Receives one message.
    pub fn receive<'i>(&self, inbox: &'i mut Inbox) -> Result<Received<'i>> {
        match channel::receive(self.socket.as_fd(), inbox, RecvFlags::DONTWAIT) {
            Ok(true) => {}
            Ok(false) => return Ok(Received::Closed),
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        }
        if inbox.is_truncated() {
            return Ok(Received::Malformed(DecodeError::TooLong));
        }
        let (bytes, descriptors) = inbox.open();
        Ok(match ToInit::decode(bytes) {
            Ok(Some(message)) => Received::Message(message, descriptors),
            Ok(None) => Received::Unknown,
            Err(error) => Received::Malformed(error),
        })
    }

    fn send(&self, payload: &Payload) -> Result<Progress> {
        match channel::send(self.socket.as_fd(), payload, &[], SendFlags::DONTWAIT) {
            Ok(()) => Ok(Progress::Sent),
            Err(error) if is_full(error) => Ok(Progress::Later),
            Err(error) => Err(error),
        }
    }
}

/// Whether the message can be sent later. Too many descriptors on their way, which the kernel counts for
/// each user without privileges, become fewer when core receives them.
fn is_full(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::TOOMANYREFS)
}

impl AsFd for InitLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
