//! What goes into the state machine and what comes out of it.

use std::time::Duration;

use bytes::Bytes;

use super::backoff::BackoffLimits;
use super::window::{FetchRange, WindowLimits};
use super::wire::WireLimits;
use crate::slots::{AskError, ReplyKind, SlotId, SlotLimits};

/// One connection; counts up from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// When an event happened, and a random number for whatever needs one.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Monotonic time since any fixed moment.
    pub now: Duration,
    /// Evenly distributed.
    pub random: u64,
}

/// Every bound of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Waits between attempts.
    pub backoff: BackoffLimits,
    /// An attempt to connect that takes longer has failed.
    pub dial_timeout: Duration,
    /// Request slots.
    pub slots: SlotLimits,
    /// Data inside HTTP/2.
    pub wire: WireLimits,
    /// Durable messages.
    pub window: WindowLimits,
    /// Ephemeral messages and requests that wait to be written.
    pub queue_messages: usize,
    /// The same in bytes; one message may go over it.
    pub queue_bytes: usize,
    /// No message is longer, in either direction.
    pub message_bytes: usize,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            backoff: BackoffLimits::default(),
            dial_timeout: Duration::from_secs(10),
            slots: SlotLimits::default(),
            wire: WireLimits::default(),
            window: WindowLimits::default(),
            queue_messages: 256,
            queue_bytes: 1024 * 1024,
            message_bytes: 4 * 1024 * 1024,
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Time passed.
    Tick,
    /// A connection stands; `hello` is the owner's state at this moment.
    Dialled {
        /// Which attempt.
        epoch: Epoch,
        /// Written before anything else, in order.
        hello: Vec<Bytes>,
    },
    /// The attempt failed.
    DialFailed {
        /// Which attempt.
        epoch: Epoch,
    },
    /// The peer accepted the stream.
    Accepted {
        /// Which connection.
        epoch: Epoch,
    },
    /// The stream ended or its connection broke.
    Closed {
        /// Which connection.
        epoch: Epoch,
    },
    /// A message arrived; answered with [`Action::Deliver`], [`Action::Complete`] or
    /// [`Action::Discard`] if the epoch is the current one.
    Received {
        /// Which connection.
        epoch: Epoch,
        /// Set when messages of this type answer requests.
        kind: Option<ReplyKind>,
    },
    /// So many bytes of the stream are in the socket.
    Flushed {
        /// Which connection.
        epoch: Epoch,
        /// Since the stream was opened.
        total: u64,
    },
    /// The probe was answered.
    ProbeAnswered {
        /// Which connection.
        epoch: Epoch,
        /// False when the answer does not prove that the stream was still taken by the peer.
        conclusive: bool,
    },
    /// The probe could not be made.
    ProbeFailed {
        /// Which connection.
        epoch: Epoch,
    },
    /// An ephemeral message.
    Submit {
        /// The encoded message.
        message: Bytes,
        /// Drop it unless this is the current stream.
        only: Option<Epoch>,
    },
    /// A request.
    Ask {
        /// Its slot.
        slot: SlotId,
        /// The answer's type.
        kind: ReplyKind,
        /// The encoded request.
        message: Bytes,
        /// When to give up.
        expires: Duration,
    },
    /// The asker stopped waiting before the request was written.
    AskerGone(SlotId),
    /// The spool has new messages.
    SpoolOffered,
    /// The answer to [`Action::Fetch`].
    Fetched(Vec<(u64, Bytes)>),
    /// The spool could not be read.
    FetchFailed,
    /// End for good.
    Stop,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Part of the state that opens every stream.
    Hello(Bytes),
    /// A message that is not repeated.
    Ephemeral(Bytes),
    /// A request.
    Request {
        /// Its slot.
        slot: SlotId,
        /// The encoded message.
        message: Bytes,
    },
    /// A message of the spool.
    Durable {
        /// The spool's id.
        id: u64,
        /// The encoded message.
        message: Bytes,
    },
}

/// Why a connection is given up by this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The attempt took too long.
    #[error("connecting took too long")]
    DialTimeout,
    /// The peer did not answer a probe in time.
    #[error("the peer did not answer a probe in time")]
    ProbeTimeout,
    /// The probe could not be made.
    #[error("the connection broke under a probe")]
    ProbeFailed,
    /// The owner stopped the link.
    #[error("stopped")]
    Stopped,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect.
    Dial(Epoch),
    /// Drop the connection or the attempt.
    Close(Epoch, CloseReason),
    /// Hand over to the stream.
    Write(Outgoing),
    /// Make a round trip on the stream's connection.
    Probe(Epoch),
    /// Read the spool.
    Fetch(FetchRange),
    /// The spool may forget everything up to here.
    Confirm(u64),
    /// A spooled message is longer than allowed and is passed over.
    Skip {
        /// The spool's id.
        id: u64,
        /// Its length.
        len: usize,
    },
    /// The received message is the answer to this request.
    Complete(SlotId),
    /// The received message is for the owner.
    Deliver,
    /// The received message is a late answer.
    Discard,
    /// The request ends without an answer.
    Fail(SlotId, AskError),
}

/// What a link did so far. Every lossy path counts here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Streams opened.
    pub opened: u64,
    /// Attempts that failed.
    pub dials_failed: u64,
    /// Streams that ended other than by a stop.
    pub broken: u64,
    /// Ephemeral messages dropped because there was no stream, or not the one they were meant for,
    /// or it broke before they were written.
    pub ephemeral_dropped: u64,
    /// Durable messages written, repeats included.
    pub durable_written: u64,
    /// Durable messages whose stream broke before they were proved: they are sent again.
    pub durable_unproved: u64,
    /// Durable messages confirmed to the spool.
    pub durable_confirmed: u64,
    /// Durable messages passed over because they are longer than allowed.
    pub durable_skipped: u64,
    /// Probes begun.
    pub probes: u64,
    /// Requests that ended without an answer.
    pub asks_failed: u64,
    /// Answers that came after their request had timed out.
    pub late_replies: u64,
    /// Reads of the spool that failed or returned a batch out of order.
    pub spool_faults: u64,
}
