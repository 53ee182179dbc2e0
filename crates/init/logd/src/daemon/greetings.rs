//! Clients of `sd_journal_stream_fd(3)`: connections that say who they are before they become streams.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use muster_control::feed::Stream;
use muster_journal::Id128;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::poll::{Poll, Source};
use crate::parse::greeting::{GREETING_MAX, GreetingState, parse_greeting};
use crate::sys;

/// The most connections that have not said who they are. The oldest goes when there are more.
const WAITING_MAX: usize = 256;
/// How many connections are accepted in one turn.
const ACCEPT_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Greetings {
    listener: OwnedFd,
    waiting: BTreeMap<u64, OwnedFd>,
    next: u64,
}

impl Greetings {
    pub(super) fn new(listener: OwnedFd) -> io::Result<Self> {
        // What is accepted inherits it, so also the first bytes say who sent them.
        sys::want_sender(listener.as_fd())?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        Ok(Self {
            listener,
            waiting: BTreeMap::new(),
            next: 0,
        })
    }

    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The connections that have not said who they are.
    pub(super) fn waiting(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// Takes new connections; gives the number of those that were turned away.
    pub(super) fn accept(&mut self, poll: &Poll) -> io::Result<u64> {
        let mut turned_away = 0;
        for _ in 0..ACCEPT_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let connection = match rustix::net::accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            if self.waiting.len() >= WAITING_MAX
                && let Some((_, oldest)) = self.waiting.pop_first()
            {
                poll.remove(oldest.as_fd());
                turned_away += 1;
            }
            poll.add(connection.as_fd(), Source::Greeting(self.next))?;
            self.waiting.insert(self.next, connection);
            self.next += 1;
        }
        Ok(turned_away)
    }

    /// Looks whether a connection has said who it is. Then it is a stream.
    pub(super) fn turn(&mut self, number: u64, poll: &Poll) -> Greeted {
        let Some(connection) = self.waiting.get(&number) else {
            return Greeted::NotYet;
        };
        let mut buffer = [0; GREETING_MAX];
        let state = match sys::receive(connection.as_fd(), &mut buffer, true) {
            Ok(received) if received.length > 0 => parse_greeting(&buffer[..received.length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => GreetingState::Incomplete,
            _ => GreetingState::Wrong,
        };
        if state == GreetingState::Incomplete {
            return Greeted::NotYet;
        }
        let Some(connection) = self.waiting.remove(&number) else {
            return Greeted::NotYet;
        };
        poll.remove(connection.as_fd());
        let GreetingState::Complete(greeting, length) = state else {
            return Greeted::Refused;
        };
        let taken = sys::receive(connection.as_fd(), &mut buffer[..length], false);
        let (Ok(_), Ok(id)) = (taken, Id128::random()) else {
            return Greeted::Refused;
        };
        let stream = Stream {
            id: id.to_string().into(),
            identifier: greeting.identifier,
            priority: greeting.level.number(),
            facility: greeting.facility,
            level_prefix: greeting.level_prefix,
            to_console: greeting.to_console,
            to_kmsg: greeting.to_kmsg,
            to_journal: true,
            ..Stream::default()
        };
        Greeted::Stream(connection, Box::new(stream))
    }
}

/// What became of a connection.
#[derive(Debug)]
pub(super) enum Greeted {
    /// It has not said all.
    NotYet,
    /// It is a stream.
    Stream(OwnedFd, Box<Stream>),
    /// It said something else.
    Refused,
}
