//! One client of a daemon, over a non-blocking socket.

use std::collections::VecDeque;
use std::error::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;

use crate::frame::{FrameReader, FrameWriter, QueueFull};
use crate::message::{Call, CallMode, Reply};
use crate::peer::Peer;
use crate::socket;

/// What one client may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest message that is read.
    pub message_bytes: usize,
    /// How deep a message may nest.
    pub depth: usize,
    /// Descriptors that may come with one message.
    pub fds: usize,
    /// Replies that may wait to be read by the client; a single longer reply is sent all the same.
    pub queued_bytes: usize,
    /// How long a message may take from its first byte to its last.
    pub half_sent: Duration,
    /// How long a client may read nothing while replies wait.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 1 << 20,
            depth: 32,
            fds: 16,
            queued_bytes: 1 << 20,
            half_sent: Duration::from_secs(10),
            unread: Duration::from_secs(30),
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// More bytes from the client.
    pub read: bool,
    /// Room for more bytes to the client.
    pub write: bool,
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionEnd {
    /// The client closed it and nothing is left to do.
    #[error("the client has gone")]
    Gone,
    /// The client sent something that is no call; it was told so.
    #[error("the client was cut off because of what it sent")]
    Refused,
    /// Reading failed.
    #[error("cannot read from the client")]
    Read(#[source] Errno),
    /// Writing failed.
    #[error("cannot write to the client")]
    Write(#[source] Errno),
}

/// Why a reply was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The call is answered already, or its client has gone.
    #[error("nobody waits for this reply any more")]
    NobodyWaits,
    /// The client does not read what it was sent. The call stays open.
    #[error("the client does not read its replies")]
    Full(#[source] QueueFull),
    /// The call can be answered only once.
    #[error("a call without `more` cannot be answered twice")]
    NotMore,
}

/// How much is read at once.
const CHUNK: usize = 32 * 1024;
/// The next call is handed out when no more than this waits to be sent.
const LOW_WATER: usize = 64 * 1024;

/// One client.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    peer: Peer,
    limits: Limits,
    reader: FrameReader,
    /// Descriptors, with the number of the message that they belong to.
    fds: VecDeque<(u64, OwnedFd)>,
    writer: FrameWriter,
    /// The call that is being answered.
    open: Option<OpenCall>,
    last_call: u64,
    phase: Phase,
    half_sent_since: Option<Duration>,
    unread_since: Option<Duration>,
    active_at: Duration,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    number: u64,
    mode: CallMode,
}

/// What still comes from the client and goes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Both.
    Both,
    /// The client will send no more; what it sent is answered.
    SendOnly,
    /// The client is gone; whole calls that it sent are still carried out.
    Orphaned,
    /// The client sent garbage; it is told so, then cut.
    Refused,
}

#[derive(Serialize)]
struct Malformed<'a> {
    reason: &'a str,
}

impl Connection {
    /// Takes a connected, non-blocking socket over.
    #[must_use]
    pub fn new(socket: OwnedFd, peer: Peer, limits: Limits, now: Duration) -> Self {
        Self {
            socket,
            peer,
            limits,
            reader: FrameReader::new(limits.message_bytes),
            fds: VecDeque::new(),
            writer: FrameWriter::new(limits.queued_bytes),
            open: None,
            last_call: 0,
            phase: Phase::Both,
            half_sent_since: None,
            unread_since: None,
            active_at: now,
        }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Reads one chunk of what the client sent.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn on_readable(&mut self, now: Duration) -> Result<(), ConnectionEnd> {
        if !self.wants_read() {
            return Ok(());
        }
        let mut chunk = [0; CHUNK];
        let got = match socket::receive(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
            Ok(got) => got,
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(ConnectionEnd::Read(errno)),
        };
        if got.bytes == 0 {
            self.phase = Phase::SendOnly;
            self.half_sent_since = None;
            return Ok(());
        }
        self.active_at = now;
        let message = self.reader.push(&chunk[..got.bytes]);
        self.fds.extend(got.fds.into_iter().map(|fd| (message, fd)));
        let with_it = self.fds.iter().filter(|(of, _)| *of == message).count();
        if got.fds_lost || with_it > self.limits.fds {
            let most = self.limits.fds;
            self.refuse(&format!("more than {most} descriptors with one message"));
        } else {
            self.watch_partial(now);
        }
        Ok(())
    }

    /// The time of a message that has begun runs, and its length counts, while nothing else keeps it from being read.
    fn watch_partial(&mut self, now: Duration) {
        if self.reader.has_frame() || !self.reader.has_partial() {
            self.half_sent_since = None;
            return;
        }
        self.half_sent_since.get_or_insert(now);
        if let Err(error) = self.reader.next_frame() {
            self.refuse(&error.to_string());
        }
    }

    /// The socket has hung up: nobody reads replies any more, but whole calls that were sent before are still handed out.
    pub fn on_hangup(&mut self, now: Duration) {
        while self.phase == Phase::Both && !self.reader.has_frame() {
            if self.on_readable(now).is_err() {
                break;
            }
        }
        self.phase = Phase::Orphaned;
        self.open = None;
        self.half_sent_since = None;
        self.unread_since = None;
    }

    /// Whether [`take_call`](Self::take_call) has something to give.
    #[must_use]
    pub fn has_call(&self) -> bool {
        let ready = self.phase == Phase::Orphaned
            || (self.open.is_none() && self.writer.queued_bytes() <= LOW_WATER);
        ready && self.phase != Phase::Refused && self.reader.has_frame()
    }

    /// The next call and its number on this connection, if it is its turn.
    pub fn take_call(&mut self, now: Duration) -> Option<(u64, Call)> {
        if !self.has_call() {
            return None;
        }
        let depth = self.limits.depth;
        let (message, decoded) = match self.reader.next_frame() {
            Ok(Some((message, frame))) => (message, Call::decode(frame, depth)),
            Ok(None) => return None,
            Err(error) => {
                self.refuse(&error.to_string());
                return None;
            }
        };
        let mut call = match decoded {
            Ok(call) => call,
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                self.refuse(&format!("{error}{}", cause.unwrap_or_default()));
                return None;
            }
        };
        while self.fds.front().is_some_and(|(of, _)| *of <= message) {
            call.fds.extend(self.fds.pop_front().map(|(_, fd)| fd));
        }
        if self.phase == Phase::Both {
            self.watch_partial(now);
        }
        if self.phase == Phase::Orphaned {
            call.mode = CallMode::Oneway;
        }
        self.last_call += 1;
        if call.mode != CallMode::Oneway {
            self.open = Some(OpenCall {
                number: self.last_call,
                mode: call.mode,
            });
        }
        Some((self.last_call, call))
    }

    /// Whether the call of this number waits for a reply.
    #[must_use]
    pub fn is_open(&self, call: u64) -> bool {
        self.open.is_some_and(|open| open.number == call)
    }

    /// Queues a reply to the call of this number. To a call that wants none, nothing is sent.
    ///
    /// # Errors
    /// If it cannot be queued.
    pub fn reply(&mut self, call: u64, reply: Reply) -> Result<(), ReplyError> {
        let Some(open) = self.open.filter(|open| open.number == call) else {
            return Err(ReplyError::NobodyWaits);
        };
        if reply.continues && open.mode != CallMode::More {
            return Err(ReplyError::NotMore);
        }
        let bytes = reply.encode();
        self.writer
            .push(bytes, reply.fds)
            .map_err(ReplyError::Full)?;
        if !reply.continues {
            self.open = None;
        }
        Ok(())
    }

    /// Sends what can be sent.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn flush(&mut self, now: Duration) -> Result<(), ConnectionEnd> {
        while !self.writer.is_empty() && self.phase != Phase::Orphaned {
            let (slices, fds) = self.writer.next_batch();
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match socket::send(&self.socket, &slices, &fds, SendFlags::DONTWAIT) {
                Ok(bytes) => {
                    self.writer.advance(bytes);
                    self.active_at = now;
                    self.unread_since = None;
                }
                Err(Errno::AGAIN) => {
                    self.unread_since.get_or_insert(now);
                    return Ok(());
                }
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    self.on_hangup(now);
                }
                Err(errno) => return Err(ConnectionEnd::Write(errno)),
            }
        }
        self.end()
    }

    /// Whether there is a reason to keep the connection.
    fn end(&self) -> Result<(), ConnectionEnd> {
        let unanswered = self.open.is_some() || self.reader.has_frame();
        match self.phase {
            Phase::Orphaned if !self.reader.has_frame() => Err(ConnectionEnd::Gone),
            Phase::SendOnly if !unanswered && self.writer.is_empty() => Err(ConnectionEnd::Gone),
            Phase::Refused if self.writer.is_empty() => Err(ConnectionEnd::Refused),
            _ => Ok(()),
        }
    }

    /// When the client has taken too long, to send or to read, and the connection is to be closed.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let half_sent = self.half_sent_since.map(|at| at + self.limits.half_sent);
        let unread = self.unread_since.map(|at| at + self.limits.unread);
        half_sent.into_iter().chain(unread).min()
    }

    /// What to wait for.
    #[must_use]
    pub fn interest(&self) -> Interest {
        Interest {
            read: self.wants_read(),
            write: !self.writer.is_empty() && self.phase != Phase::Orphaned,
        }
    }

    /// Reads on only when what came before was taken: the rest waits in the socket.
    fn wants_read(&self) -> bool {
        self.phase == Phase::Both && !self.reader.has_frame()
    }

    /// Since when nothing happened, while there is nothing to answer or send.
    #[must_use]
    pub fn idle_since(&self) -> Option<Duration> {
        let busy = self.open.is_some() || self.reader.has_frame() || !self.writer.is_empty();
        (!busy).then_some(self.active_at)
    }

    /// How many bytes wait to be read by the client.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.writer.queued_bytes()
    }

    fn refuse(&mut self, reason: &str) {
        self.phase = Phase::Refused;
        self.open = None;
        self.half_sent_since = None;
        self.fds.clear();
        let told = Reply::failure("io.muster.Protocol.MalformedCall", &Malformed { reason });
        // A queue that is full already says by its end that something is wrong.
        let _ = self.writer.push(told.encode(), Vec::new());
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
