//! Request slots: which request an answer belongs to, on a wire that carries no request ids.
//!
//! An answer is matched by its message type alone ([`ReplyKind`]), so the rules are strict:
//!
//! * **One in flight per kind.** Several requests can share one answer type (checking, setting and
//!   reading a configuration all answer with its status). With two of them on the wire, one answer
//!   lost by the peer would shift every later answer by one. Later requests of a kind therefore
//!   wait, in order, until the one before them is settled.
//! * **Registered before written.** A slot exists before the first byte of its request is handed to
//!   the transport, so an answer cannot outrun it.
//! * **The deadline runs from the moment of asking**, waiting included.
//! * **A late answer belongs to nobody.** When a *written* request times out its kind is quarantined:
//!   nothing of this kind is written until the late answer arrived (and was thrown away), or the
//!   stream was replaced, or [`SlotLimits::drain`] passed, after which the answer is taken to be
//!   never coming. An answer slower than deadline plus drain is the one case that cannot be told
//!   from a prompt one; `Duration::MAX` rules it out at the price of a kind that stays blocked until
//!   the stream is replaced. A request that timed out before it was written leaves no quarantine.
//! * **Disconnect fails everything at once.**
//!
//! The type is pure: time comes in as a monotonic value, what to do comes out as [`SlotEffect`]s.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The message type of an answer, by its name on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyKind(pub &'static str);

impl fmt::Display for ReplyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One request, unique for the life of a link or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u64);

/// Bounds of the request slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// How long an asker waits unless it says otherwise.
    pub deadline: Duration,
    /// How long after a timeout the late answer is still expected.
    pub drain: Duration,
    /// How many requests of one kind may wait behind the one in flight.
    pub queue: usize,
}

impl Default for SlotLimits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            drain: Duration::from_secs(30),
            queue: 64,
        }
    }
}

/// Why a request ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There is no stream, or it broke while the request was pending.
    #[error("no answer: the stream is down")]
    Disconnected,
    /// The deadline passed; the request had been written.
    #[error("no answer of type {kind} before the deadline")]
    TimedOut {
        /// The expected answer.
        kind: ReplyKind,
    },
    /// The deadline passed before the request could be written: one of its kind was unanswered, or
    /// the peer did not take data.
    #[error("the request for {kind} was not sent before its deadline")]
    NotSent {
        /// The expected answer.
        kind: ReplyKind,
    },
    /// As many requests of this kind as allowed are waiting already.
    #[error("too many requests for {kind} are waiting")]
    TooMany {
        /// The expected answer.
        kind: ReplyKind,
    },
    /// The link or session was stopped.
    #[error("no answer: the stream was stopped")]
    Stopped,
    /// The request is longer than the peer may be sent.
    #[error("the request for {kind} has {len} bytes, more than the {limit} allowed")]
    TooLong {
        /// The expected answer.
        kind: ReplyKind,
        /// The request's length.
        len: usize,
        /// The limit.
        limit: usize,
    },
}

/// What the owner of the slots must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEffect {
    /// It is this request's turn: write it, calling [`Slots::begin_write`] first.
    Write(SlotId),
    /// Tell the asker.
    Fail(SlotId, AskError),
}

/// What an incoming message of a reply kind turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFate {
    /// The answer to this request.
    Answers(SlotId),
    /// The late answer to a request that timed out: throw it away.
    Late,
    /// Nobody asked: an ordinary message.
    Unsolicited,
}

#[derive(Debug)]
struct Waiting<T> {
    slot: SlotId,
    expires: Duration,
    request: T,
}

#[derive(Debug)]
enum Head<T> {
    Free,
    /// Its turn has come; it waits for the transport.
    Ready(Waiting<T>),
    /// Handed to the transport; the next answer of this kind is its own.
    Written {
        slot: SlotId,
        expires: Duration,
    },
    Quarantined {
        until: Duration,
    },
}

#[derive(Debug)]
struct Lane<T> {
    kind: ReplyKind,
    head: Head<T>,
    queue: VecDeque<Waiting<T>>,
}

/// All request slots of one stream, each with its request `T` until that is written. See the module
/// documentation for the rules.
#[derive(Debug)]
pub struct Slots<T> {
    limits: SlotLimits,
    /// One lane per kind ever asked for: kinds are compiled in, so this is short.
    lanes: Vec<Lane<T>>,
}

impl<T> Slots<T> {
    /// No requests yet.
    pub fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            lanes: Vec::new(),
        }
    }

    /// Registers a request that expires at `expires`.
    pub fn ask(
        &mut self,
        slot: SlotId,
        kind: ReplyKind,
        expires: Duration,
        request: T,
        effects: &mut Vec<SlotEffect>,
    ) {
        let limit = self.limits.queue;
        let lane = self.lane(kind);
        let waiting = Waiting {
            slot,
            expires,
            request,
        };
        match lane.head {
            Head::Free => {
                lane.head = Head::Ready(waiting);
                effects.push(SlotEffect::Write(slot));
            }
            _ if lane.queue.len() < limit => lane.queue.push_back(waiting),
            _ => effects.push(SlotEffect::Fail(slot, AskError::TooMany { kind })),
        }
    }

    /// Marks a request as written and hands it out. Nothing: it has been settled meanwhile and must
    /// not be written.
    #[must_use]
    pub fn begin_write(&mut self, wanted: SlotId) -> Option<T> {
        let lane = self
            .lanes
            .iter_mut()
            .find(|lane| matches!(&lane.head, Head::Ready(ready) if ready.slot == wanted))?;
        match std::mem::replace(&mut lane.head, Head::Free) {
            Head::Ready(Waiting {
                slot,
                expires,
                request,
            }) => {
                lane.head = Head::Written { slot, expires };
                Some(request)
            }
            other => {
                lane.head = other;
                None
            }
        }
    }

    /// The asker has gone. A request that was not written yet never will be, and the next one takes
    /// its turn; one that was written keeps its place until the answer or the deadline.
    pub fn abandon(&mut self, gone: SlotId, effects: &mut Vec<SlotEffect>) {
        for lane in &mut self.lanes {
            lane.queue.retain(|waiting| waiting.slot != gone);
            if matches!(&lane.head, Head::Ready(ready) if ready.slot == gone) {
                lane.advance(effects);
            }
        }
    }

    /// Matches an incoming message.
    pub fn reply(&mut self, kind: ReplyKind, effects: &mut Vec<SlotEffect>) -> ReplyFate {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.kind == kind) else {
            return ReplyFate::Unsolicited;
        };
        match lane.head {
            Head::Written { slot, .. } => {
                lane.advance(effects);
                ReplyFate::Answers(slot)
            }
            Head::Quarantined { .. } => {
                lane.advance(effects);
                ReplyFate::Late
            }
            Head::Ready(_) | Head::Free => ReplyFate::Unsolicited,
        }
    }

    /// Fails what has expired and lifts quarantines whose time is up.
    pub fn tick(&mut self, now: Duration, effects: &mut Vec<SlotEffect>) {
        let drain = self.limits.drain;
        for lane in &mut self.lanes {
            let kind = lane.kind;
            lane.queue.retain(|waiting| {
                let live = waiting.expires > now;
                if !live {
                    effects.push(SlotEffect::Fail(waiting.slot, AskError::NotSent { kind }));
                }
                live
            });
            match lane.head {
                Head::Written { slot, expires } if expires <= now => {
                    effects.push(SlotEffect::Fail(slot, AskError::TimedOut { kind }));
                    lane.head = Head::Quarantined {
                        until: expires.saturating_add(drain),
                    };
                }
                Head::Ready(Waiting { slot, expires, .. }) if expires <= now => {
                    effects.push(SlotEffect::Fail(slot, AskError::NotSent { kind }));
                    lane.advance(effects);
                }
                _ => {}
            }
            // A driver that slept long may see timeout and end of quarantine in one tick.
            if matches!(lane.head, Head::Quarantined { until } if until <= now) {
                lane.advance(effects);
            }
        }
    }

    /// The stream is gone: every request fails, every quarantine ends.
    pub fn fail_all(&mut self, why: AskError, effects: &mut Vec<SlotEffect>) {
        for lane in self.lanes.drain(..) {
            match lane.head {
                Head::Ready(Waiting { slot, .. }) | Head::Written { slot, .. } => {
                    effects.push(SlotEffect::Fail(slot, why));
                }
                Head::Free | Head::Quarantined { .. } => {}
            }
            effects.extend(lane.queue.iter().map(|w| SlotEffect::Fail(w.slot, why)));
        }
    }

    /// When [`Slots::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.lanes
            .iter()
            .flat_map(|lane| {
                let head = match lane.head {
                    Head::Free => None,
                    Head::Ready(Waiting { expires, .. }) | Head::Written { expires, .. } => {
                        Some(expires)
                    }
                    Head::Quarantined { until } => Some(until),
                };
                head.into_iter().chain(lane.queue.iter().map(|w| w.expires))
            })
            .min()
    }

    /// Requests that are neither answered nor failed.
    pub fn pending(&self) -> usize {
        self.lanes
            .iter()
            .map(|lane| {
                let head = matches!(lane.head, Head::Ready(_) | Head::Written { .. });
                lane.queue.len() + usize::from(head)
            })
            .sum()
    }

    fn lane(&mut self, kind: ReplyKind) -> &mut Lane<T> {
        let at = self
            .lanes
            .iter()
            .position(|lane| lane.kind == kind)
            .unwrap_or_else(|| {
                self.lanes.push(Lane {
                    kind,
                    head: Head::Free,
                    queue: VecDeque::new(),
                });
                self.lanes.len() - 1
            });
        &mut self.lanes[at]
    }
}

impl<T> Lane<T> {
    fn advance(&mut self, effects: &mut Vec<SlotEffect>) {
        self.head = match self.queue.pop_front() {
            None => Head::Free,
            Some(next) => {
                effects.push(SlotEffect::Write(next.slot));
                Head::Ready(next)
            }
        };
    }
}

#[cfg(test)]
mod tests;
