//! A listening socket and its connections, behind one descriptor.

mod poll;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::admission::{self, Census, Guest, Places, Seated, Verdict};
use crate::connection::{Connection, ConnectionEnd, Interest, Limits, ReplyError};
use crate::message::{Call, Reply};
use crate::peer::Peer;
use poll::{FIRST_CONNECTION, Poll, Ready, Token};

/// A connection of a [`Server`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// A call that waits for its reply. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The connection it came by.
    pub connection: ConnectionId,
    number: u64,
}

/// A call, who makes it, and where its replies go.
#[derive(Debug)]
pub struct IncomingCall {
    /// For [`Server::reply`].
    pub id: CallId,
    /// Who calls.
    pub peer: Peer,
    /// The call.
    pub call: Call,
}

impl std::ops::Deref for IncomingCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// How a server treats its clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// How many there may be.
    pub places: Places,
    /// What each may cost that is root's or the service's own user's.
    pub limits: Limits,
    /// What each of the others may cost.
    pub others: Limits,
    /// Replies that may wait to be read by all the others together. While more wait, their further calls wait too.
    pub queued_for_others: usize,
    /// The user that is treated as root is.
    pub owner: u32,
    /// Calls that are handed out between two turns, so that whoever calls often does not keep the loop for itself.
    pub calls_per_turn: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            places: Places::default(),
            limits: Limits::default(),
            others: Limits {
                message_bytes: 64 << 10,
                fds: 0,
                ..Limits::default()
            },
            queued_for_others: 16 << 20,
            owner: rustix::process::geteuid().as_raw(),
            calls_per_turn: 64,
        }
    }
}

/// Why a server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenServerError {
    /// The descriptor that stands for all connections could not be made.
    #[error("cannot make an epoll instance for the varlink server")]
    Poll(#[source] io::Error),
    /// The listening socket cannot be used.
    #[error("cannot watch the varlink server's listening socket")]
    Listener(#[source] io::Error),
}

/// What became of connections, over the life of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Let in.
    pub accepted: u64,
    /// Not let in, because there was no room.
    pub refused: u64,
    /// Closed to make room.
    pub replaced: u64,
    /// Closed because they took too long to send or to read.
    pub too_slow: u64,
    /// Closed because of what they sent.
    pub malformed: u64,
}

/// Why a connection is closed.
enum Cause {
    NoRoom,
    TooSlow,
    Ended(ConnectionEnd),
}

/// How many connections are accepted in one turn. When there is no room, each costs a look at all that are there.
const ACCEPT_BATCH: usize = 16;
/// How long no connection is accepted after the process had no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket and its connections. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    poll: Poll,
    options: ServerOptions,
    connections: HashMap<ConnectionId, Slot>,
    /// How many connections each user has.
    users: HashMap<u32, usize>,
    next_connection: u64,
    counters: Counters,
    /// Connections that have a call to hand out, each once: those of root and of the service's own user come first.
    ready: VecDeque<ConnectionId>,
    ready_others: VecDeque<ConnectionId>,
    /// Connections that have a call to hand out and must wait for others to read.
    held: Vec<ConnectionId>,
    /// Bytes that wait to be read by unprivileged clients.
    queued_for_others: usize,
    /// Connections with something to send.
    dirty: Vec<ConnectionId>,
    deadlines: BTreeSet<(Duration, ConnectionId)>,
    paused_until: Option<Duration>,
    /// Calls handed out since the last turn.
    handed_out: usize,
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    interest: Option<Interest>,
    deadline: Option<Duration>,
    privileged: bool,
    /// Counted in [`Server::queued_for_others`].
    queued: usize,
    is_ready: bool,
    is_dirty: bool,
}

impl Server {
    /// Serves a listening unix stream socket, which is made non-blocking.
    ///
    /// # Errors
    /// If the socket cannot be watched.
    pub fn new(listener: OwnedFd, options: ServerOptions) -> Result<Self, OpenServerError> {
        let poll = Poll::new().map_err(|errno| OpenServerError::Poll(errno.into()))?;
        rustix::io::ioctl_fionbio(&listener, true)
            .and_then(|()| poll.watch_listener(&listener))
            .map_err(|errno| OpenServerError::Listener(errno.into()))?;
        Ok(Self {
            listener,
            poll,
            options,
            connections: HashMap::new(),
            users: HashMap::new(),
            next_connection: FIRST_CONNECTION,
            counters: Counters::default(),
            ready: VecDeque::new(),
            ready_others: VecDeque::new(),
            held: Vec::new(),
            queued_for_others: 0,
            dirty: Vec::new(),
            deadlines: BTreeSet::new(),
            paused_until: None,
            handed_out: 0,
        })
    }

    /// Does what the sockets are ready for: accepts, reads, writes. Bounded, and never waits. To be called whenever the
    /// server's descriptor is readable or [`next_deadline`](Self::next_deadline) is reached.
    pub fn turn(&mut self, now: Duration) {
        self.handed_out = 0;
        self.flush(now);
        for Ready { token, hung_up } in self.poll.ready() {
            match token {
                Token::Listener => self.accept(now),
                Token::MoreCalls => self.poll.calm(),
                Token::Connection(id) => self.on_ready(ConnectionId(id), hung_up, now),
            }
        }
        self.expire(now);
        self.release_held();
    }

    /// The next call, if there is one and this turn's share is not used up.
    pub fn next_call(&mut self, now: Duration) -> Option<IncomingCall> {
        // What is left comes in the next turn, for which `flush` wakes the loop.
        while self.handed_out < self.options.calls_per_turn {
            let next = self.ready.pop_front();
            let id = next.or_else(|| self.ready_others.pop_front())?;
            let Some(slot) = self.connections.get_mut(&id) else {
                continue;
            };
            if !slot.privileged && self.queued_for_others > self.options.queued_for_others {
                self.held.push(id);
                continue;
            }
            slot.is_ready = false;
            let peer = slot.connection.peer();
            let taken = slot.connection.take_call(now);
            self.mark_dirty(id);
            self.settle(id);
            if let Some((number, call)) = taken {
                self.handed_out += 1;
                let id = CallId {
                    connection: id,
                    number,
                };
                return Some(IncomingCall { id, peer, call });
            }
        }
        None
    }

    /// Queues a reply; [`flush`](Self::flush) sends it.
    ///
    /// # Errors
    /// If nobody waits for it, or its client does not read.
    pub fn reply(&mut self, call: CallId, reply: Reply) -> Result<(), ReplyError> {
        let slot = self
            .connections
            .get_mut(&call.connection)
            .ok_or(ReplyError::NobodyWaits)?;
        slot.connection.reply(call.number, reply)?;
        self.mark_dirty(call.connection);
        // The next call of the same connection may have its turn now.
        self.settle(call.connection);
        Ok(())
    }

    /// Whether somebody still waits for replies to this call.
    #[must_use]
    pub fn is_open(&self, call: CallId) -> bool {
        let slot = self.connections.get(&call.connection);
        slot.is_some_and(|slot| slot.connection.is_open(call.number))
    }

    /// How many bytes wait to be read by unprivileged clients.
    #[must_use]
    pub fn queued_for_others(&self) -> usize {
        self.queued_for_others
    }

    /// Sends what is queued, as far as the clients take it. To be called before the loop waits again.
    pub fn flush(&mut self, now: Duration) {
        for id in std::mem::take(&mut self.dirty) {
            if let Some(slot) = self.connections.get_mut(&id) {
                slot.is_dirty = false;
                self.flush_one(id, now);
            }
        }
        self.release_held();
        if !self.ready.is_empty() || !self.ready_others.is_empty() {
            self.poll.wake();
        }
    }

    /// Lets unprivileged clients go on once enough was read.
    fn release_held(&mut self) {
        if self.queued_for_others <= self.options.queued_for_others {
            self.ready_others.extend(self.held.drain(..));
        }
    }

    /// When [`turn`](Self::turn) is to be called even if no socket is ready.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let first = self.deadlines.first().map(|(at, _)| *at);
        first.into_iter().chain(self.paused_until).min()
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What became of connections so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The listening socket, to be handed to a successor.
    #[must_use]
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn accept(&mut self, now: Duration) {
        for _ in 0..ACCEPT_BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => self.admit(socket, now),
                // A client that gave up while it waited is no reason to let the next one wait.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    match admission::least_needed(self.seated()) {
                        Some(id) => self.close(id, Cause::NoRoom),
                        None => return self.pause(now),
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, now: Duration) {
        let Ok(peer) = Peer::of(&socket) else {
            return;
        };
        let newcomer = Guest {
            uid: peer.uid,
            privileged: peer.is_privileged(self.options.owner),
        };
        let census = Census {
            total: self.connections.len(),
            same_user: self.users.get(&peer.uid).copied().unwrap_or(0),
        };
        match admission::decide(self.options.places, newcomer, census, self.seated()) {
            Verdict::Admit => {}
            Verdict::Replace(id) => self.close(id, Cause::NoRoom),
            Verdict::Refuse => {
                self.counters.refused += 1;
                return;
            }
        }
        self.counters.accepted += 1;
        *self.users.entry(peer.uid).or_default() += 1;
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let limits = if newcomer.privileged {
            self.options.limits
        } else {
            self.options.others
        };
        let connection = Connection::new(socket, peer, limits, now);
        let slot = Slot {
            connection,
            interest: None,
            deadline: None,
            privileged: newcomer.privileged,
            queued: 0,
            is_ready: false,
            is_dirty: false,
        };
        self.connections.insert(id, slot);
        self.settle(id);
    }

    fn pause(&mut self, now: Duration) {
        self.paused_until = Some(now + ACCEPT_PAUSE);
        self.poll.ignore_listener(&self.listener);
    }

    fn on_ready(&mut self, id: ConnectionId, hung_up: bool, now: Duration) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        if hung_up {
            slot.connection.on_hangup(now);
        } else if let Err(end) = slot.connection.on_readable(now) {
            return self.close(id, Cause::Ended(end));
        }
        self.flush_one(id, now);
    }

    fn flush_one(&mut self, id: ConnectionId, now: Duration) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        match slot.connection.flush(now) {
            Ok(()) => self.settle(id),
            Err(end) => self.close(id, Cause::Ended(end)),
        }
    }

    /// Brings what is watched, due and ready in line with a connection that something happened to.
    fn settle(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(&id) else {
            return;
        };
        if slot.connection.has_call() && !slot.is_ready {
            slot.is_ready = true;
            if slot.privileged {
                self.ready.push_back(id);
            } else {
                self.ready_others.push_back(id);
            }
        }
        if !slot.privileged {
            let queued = slot.connection.queued_bytes();
            self.queued_for_others = self.queued_for_others + queued - slot.queued;
            slot.queued = queued;
        }
        let deadline = slot.connection.deadline();
        if deadline != slot.deadline {
            if let Some(old) = slot.deadline {
                self.deadlines.remove(&(old, id));
            }
            if let Some(new) = deadline {
                self.deadlines.insert((new, id));
            }
            slot.deadline = deadline;
        }
        let interest = slot.connection.interest();
        if slot.interest != Some(interest) {
            let first = slot.interest.is_none();
            if self
                .poll
                .watch(&slot.connection, id.0, interest, first)
                .is_err()
            {
                return self.close(id, Cause::NoRoom);
            }
            slot.interest = Some(interest);
        }
    }

    fn expire(&mut self, now: Duration) {
        while let Some((at, id)) = self.deadlines.first().copied() {
            if at > now {
                break;
            }
            self.close(id, Cause::TooSlow);
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            if self.poll.watch_listener(&self.listener).is_err() {
                self.pause(now);
            }
        }
    }

    fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(slot) = self.connections.get_mut(&id)
            && !slot.is_dirty
        {
            slot.is_dirty = true;
            self.dirty.push(id);
        }
    }

    /// Closes a connection; epoll forgets a socket with its last descriptor.
    fn close(&mut self, id: ConnectionId, cause: Cause) {
        let Some(slot) = self.connections.remove(&id) else {
            return;
        };
        if let Some(at) = slot.deadline {
            self.deadlines.remove(&(at, id));
        }
        self.queued_for_others -= slot.queued;
        if let Entry::Occupied(mut count) = self.users.entry(slot.connection.peer().uid) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        match cause {
            Cause::NoRoom => self.counters.replaced += 1,
            Cause::TooSlow => self.counters.too_slow += 1,
            Cause::Ended(ConnectionEnd::Refused) => self.counters.malformed += 1,
            Cause::Ended(_) => {}
        }
    }

    fn seated(&self) -> impl Iterator<Item = Seated<ConnectionId>> + Clone + '_ {
        self.connections.iter().map(|(id, slot)| {
            let peer = slot.connection.peer();
            let idle = slot.connection.idle_since();
            Seated {
                key: *id,
                guest: Guest {
                    uid: peer.uid,
                    privileged: slot.privileged,
                },
                idle_since: idle.map(|at| u64::try_from(at.as_micros()).unwrap_or(u64::MAX)),
            }
        })
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
