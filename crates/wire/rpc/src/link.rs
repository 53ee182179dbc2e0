//! The reconnecting stream as a pure state machine.
//!
//! ```text
//!              Dial                 Dialled                     Stop
//!   Waiting ---------> Dialling --------------> Open ------------------> Stopped
//!      ^  ^               |                      |                          ^
//!      |  +-- DialFailed -+                      |        (from any phase)--+
//!      |      dial deadline                      |
//!      +---- Closed, probe failed or late -------+
//!            (every request fails, the window is thrown away, back-off begins)
//! ```
//!
//! [`Link`] has no clock, no I/O and no randomness: each [`Event`] comes with the time and a random
//! number ([`At`]), and leaves [`Action`]s to carry out in order. Events of an earlier connection
//! carry its [`Epoch`] and are ignored.

mod backoff;
mod vocabulary;
mod window;
mod wire;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::slots::{AskError, ReplyFate, ReplyKind, SlotEffect, SlotId, Slots};
pub use backoff::BackoffLimits;
pub use vocabulary::{Action, At, CloseReason, Epoch, Event, LinkLimits, LinkStats, Outgoing};
pub use window::{FetchRange, WindowLimits};
pub use wire::WireLimits;

use backoff::Backoff;
use window::Window;
use wire::Wire;

#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting { until: Duration },
    Dialling { expires: Duration },
    Open { since: Duration, heard: bool },
    Stopped,
}

#[derive(Debug)]
enum Queued {
    Message(Bytes),
    Request(SlotId),
}

/// The state machine of one reconnecting stream. See the module documentation.
#[derive(Debug)]
pub struct Link {
    limits: LinkLimits,
    phase: Phase,
    epoch: Epoch,
    backoff: Backoff,
    wire: Wire,
    hello: VecDeque<Bytes>,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    slots: Slots<Bytes>,
    effects: Vec<SlotEffect>,
    window: Option<Window>,
    durable_turn: bool,
    stats: LinkStats,
}

impl Link {
    /// A link that dials at the first event. `spooled`: there is a spool of durable messages.
    pub fn new(limits: LinkLimits, spooled: bool) -> Self {
        Self {
            limits,
            phase: Phase::Waiting {
                until: Duration::ZERO,
            },
            epoch: Epoch(0),
            backoff: Backoff::new(limits.backoff),
            wire: Wire::default(),
            hello: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            slots: Slots::new(limits.slots),
            effects: Vec::new(),
            window: spooled.then(|| Window::new(limits.window)),
            durable_turn: false,
            stats: LinkStats::default(),
        }
    }

    /// Takes one event in and appends what follows from it.
    pub fn handle(&mut self, at: At, event: Event, actions: &mut Vec<Action>) {
        if let Phase::Stopped = self.phase {
            if let Event::Ask { slot, .. } = event {
                self.fail(slot, AskError::Stopped, actions);
            }
            return;
        }
        self.take(at, event, actions);
        self.pump(at, actions);
    }

    /// Whether another message or request may be submitted now. Without a stream it always may:
    /// then it is dropped or refused at once.
    pub fn accepts(&self) -> bool {
        match self.phase {
            Phase::Open { .. } => {
                self.queue.len() < self.limits.queue_messages
                    && self.queued_bytes < self.limits.queue_bytes
            }
            Phase::Waiting { .. } | Phase::Dialling { .. } | Phase::Stopped => true,
        }
    }

    /// When [`Event::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Dialling { expires } => Some(expires),
            Phase::Open { .. } => {
                let window = self.window.as_ref().and_then(Window::next_deadline);
                self.slots.next_deadline().into_iter().chain(window).min()
            }
            Phase::Stopped => None,
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Whether a stream is open.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Whether the link has ended for good.
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    fn take(&mut self, at: At, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Tick => {}
            Event::Dialled { epoch, hello } => {
                if let (Phase::Dialling { .. }, true) = (self.phase, epoch == self.epoch) {
                    self.open(at, hello);
                }
            }
            Event::DialFailed { epoch } => {
                if let (Phase::Dialling { .. }, true) = (self.phase, epoch == self.epoch) {
                    self.stats.dials_failed += 1;
                    self.wait(at);
                }
            }
            Event::Accepted { epoch } => self.hear(epoch),
            Event::Closed { epoch } => {
                if self.current(epoch) {
                    self.broken(at, actions);
                }
            }
            Event::Received { epoch, kind } => {
                if self.current(epoch) {
                    self.hear(epoch);
                    self.receive(kind, actions);
                }
            }
            Event::Flushed { epoch, total } => {
                if self.current(epoch) {
                    self.wire.flush(total);
                }
            }
            Event::ProbeAnswered { epoch, conclusive } => {
                if self.current(epoch) {
                    self.hear(epoch);
                    self.probed(conclusive, actions);
                }
            }
            Event::ProbeFailed { epoch } => {
                if self.current(epoch) {
                    actions.push(Action::Close(epoch, CloseReason::ProbeFailed));
                    self.broken(at, actions);
                }
            }
            Event::Submit { message, only } => {
                if self.is_open() && only.is_none_or(|epoch| epoch == self.epoch) {
                    self.queued_bytes += message.len();
                    self.queue.push_back(Queued::Message(message));
                } else {
                    self.stats.ephemeral_dropped += 1;
                }
            }
            Event::Ask {
                slot,
                kind,
                message,
                expires,
            } => {
                if self.is_open() {
                    self.slots
                        .ask(slot, kind, expires, message, &mut self.effects);
                    self.settle(actions);
                } else {
                    self.fail(slot, AskError::Disconnected, actions);
                }
            }
            Event::AskerGone(slot) => {
                self.slots.abandon(slot, &mut self.effects);
                self.settle(actions);
            }
            Event::SpoolOffered => {
                if let Some(window) = &mut self.window {
                    window.offer();
                }
            }
            Event::Fetched(batch) => {
                if let Some(window) = &mut self.window
                    && window.fetched(at.now, batch).is_err()
                {
                    self.stats.spool_faults += 1;
                }
            }
            Event::FetchFailed => {
                if let Some(window) = &mut self.window {
                    window.fetch_failed(at.now);
                    self.stats.spool_faults += 1;
                }
            }
            Event::Stop => {
                if !matches!(self.phase, Phase::Waiting { .. }) {
                    actions.push(Action::Close(self.epoch, CloseReason::Stopped));
                }
                self.clear_stream(AskError::Stopped, actions);
                self.phase = Phase::Stopped;
            }
        }
    }

    fn current(&self, epoch: Epoch) -> bool {
        self.is_open() && epoch == self.epoch
    }

    fn open(&mut self, at: At, hello: Vec<Bytes>) {
        self.phase = Phase::Open {
            since: at.now,
            heard: false,
        };
        self.wire = Wire::default();
        self.hello = hello.into();
        self.stats.opened += 1;
    }

    fn hear(&mut self, epoch: Epoch) {
        if let (Phase::Open { heard, .. }, true) = (&mut self.phase, epoch == self.epoch) {
            *heard = true;
        }
    }

    fn receive(&mut self, kind: Option<ReplyKind>, actions: &mut Vec<Action>) {
        let fate = match kind {
            Some(kind) => self.slots.reply(kind, &mut self.effects),
            None => ReplyFate::Unsolicited,
        };
        actions.push(match fate {
            ReplyFate::Answers(slot) => Action::Complete(slot),
            ReplyFate::Unsolicited => Action::Deliver,
            ReplyFate::Late => {
                self.stats.late_replies += 1;
                Action::Discard
            }
        });
        self.settle(actions);
    }

    fn probed(&mut self, conclusive: bool, actions: &mut Vec<Action>) {
        let Some(window) = &mut self.window else {
            return;
        };
        let before = window.unconfirmed();
        if let Some(up_to) = window.probed(conclusive) {
            self.stats.durable_confirmed += (before - window.unconfirmed()) as u64;
            actions.push(Action::Confirm(up_to));
        }
    }

    /// The stream is gone without our doing, or was just closed by us.
    fn broken(&mut self, at: At, actions: &mut Vec<Action>) {
        if let Phase::Open { since, heard } = self.phase
            && heard
            && at.now.saturating_sub(since) >= self.backoff.healthy_after()
        {
            self.backoff.reset();
        }
        self.stats.broken += 1;
        self.clear_stream(AskError::Disconnected, actions);
        self.wait(at);
    }

    fn wait(&mut self, at: At) {
        let wait = self.backoff.next(at.random);
        self.phase = Phase::Waiting {
            until: at.now.saturating_add(wait),
        };
    }

    fn clear_stream(&mut self, why: AskError, actions: &mut Vec<Action>) {
        let dropped = self
            .queue
            .iter()
            .filter(|q| matches!(q, Queued::Message(_)))
            .count();
        self.stats.ephemeral_dropped += dropped as u64;
        self.hello.clear();
        self.queue.clear();
        self.queued_bytes = 0;
        self.slots.fail_all(why, &mut self.effects);
        self.settle(actions);
        if let Some(window) = &mut self.window {
            self.stats.durable_unproved += window.disconnect() as u64;
        }
    }

    fn settle(&mut self, actions: &mut Vec<Action>) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                // In turn with the messages that were submitted before it.
                SlotEffect::Write(slot) => self.queue.push_back(Queued::Request(slot)),
                SlotEffect::Fail(slot, why) => self.fail(slot, why, actions),
            }
        }
        // The buffer is kept: this runs for every message.
        self.effects = effects;
    }

    fn fail(&mut self, slot: SlotId, why: AskError, actions: &mut Vec<Action>) {
        self.stats.asks_failed += 1;
        actions.push(Action::Fail(slot, why));
    }

    /// Everything that follows from time and room, whatever the event was.
    fn pump(&mut self, at: At, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Stopped => {}
            Phase::Waiting { until } => {
                if until <= at.now {
                    self.epoch.0 += 1;
                    let expires = at.now.saturating_add(self.limits.dial_timeout);
                    self.phase = Phase::Dialling { expires };
                    actions.push(Action::Dial(self.epoch));
                }
            }
            Phase::Dialling { expires } => {
                if expires <= at.now {
                    actions.push(Action::Close(self.epoch, CloseReason::DialTimeout));
                    self.stats.dials_failed += 1;
                    self.wait(at);
                }
            }
            Phase::Open { .. } => self.pump_stream(at, actions),
        }
    }

    fn pump_stream(&mut self, at: At, actions: &mut Vec<Action>) {
        if self
            .window
            .as_ref()
            .is_some_and(|window| window.probe_expired(at.now))
        {
            actions.push(Action::Close(self.epoch, CloseReason::ProbeTimeout));
            self.broken(at, actions);
            return;
        }
        self.slots.tick(at.now, &mut self.effects);
        self.settle(actions);
        while self.wire.has_credit(self.limits.wire)
            && let Some(outgoing) = self.next_outgoing(actions)
        {
            actions.push(Action::Write(outgoing));
        }
        if let Some(window) = &mut self.window {
            if window.start_probe(at.now, self.wire.flushed()) {
                self.stats.probes += 1;
                actions.push(Action::Probe(self.epoch));
            }
            if let Some(range) = window.start_fetch(at.now) {
                actions.push(Action::Fetch(range));
            }
        }
    }

    /// Hello first; then queue and spool take turns, so that neither starves the other.
    fn next_outgoing(&mut self, actions: &mut Vec<Action>) -> Option<Outgoing> {
        if let Some(message) = self.hello.pop_front() {
            self.wire.hand(message.len());
            return Some(Outgoing::Hello(message));
        }
        self.durable_turn = !self.durable_turn;
        if self.durable_turn {
            self.next_durable(actions).or_else(|| self.next_queued())
        } else {
            self.next_queued().or_else(|| self.next_durable(actions))
        }
    }

    fn next_queued(&mut self) -> Option<Outgoing> {
        while let Some(queued) = self.queue.pop_front() {
            match queued {
                Queued::Message(message) => {
                    self.queued_bytes -= message.len();
                    self.wire.hand(message.len());
                    return Some(Outgoing::Ephemeral(message));
                }
                Queued::Request(slot) => {
                    // A request that timed out or was abandoned meanwhile is not written.
                    if let Some(message) = self.slots.begin_write(slot) {
                        self.wire.hand(message.len());
                        return Some(Outgoing::Request { slot, message });
                    }
                }
            }
        }
        None
    }

    fn next_durable(&mut self, actions: &mut Vec<Action>) -> Option<Outgoing> {
        let window = self.window.as_mut()?;
        while let Some((id, message)) = window.next_pending() {
            if message.len() > self.limits.message_bytes {
                self.stats.durable_skipped += 1;
                actions.push(Action::Skip {
                    id,
                    len: message.len(),
                });
                // It takes its place in the order and is confirmed with its neighbours.
                window.written(id, message.len(), self.wire.handed());
                continue;
            }
            let end = self.wire.hand(message.len());
            window.written(id, message.len(), end);
            self.stats.durable_written += 1;
            return Some(Outgoing::Durable { id, message });
        }
        None
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
