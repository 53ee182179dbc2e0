//! What subscribers are told: a log of the last changes, and how far each subscriber is.
//!
//! Numbers rise over the life of the machine. Each core begins at a number that no core before it has reached, so that a
//! subscriber that comes back to another core is never told that it has seen what it has not.

use std::collections::VecDeque;

use muster_control::manager::{Change, Event, SubscribeCall, SubscribeReply};
use muster_unit_file::install::glob;
use muster_varlink::CallId;

/// Changes that are remembered.
const KEPT: usize = 4096;
/// Changes that one reply carries at most.
const BATCH: usize = 256;
/// Most patterns of one subscriber.
const MAX_PATTERNS: usize = 64;

/// The last changes.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: VecDeque<Event>,
    last: u64,
}

impl EventLog {
    /// Begins after this number.
    pub(super) fn begin(&mut self, last: u64) {
        self.last = last;
        self.events.clear();
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn add(&mut self, real: i64, change: Change) {
        self.last += 1;
        if self.events.len() >= KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            sequence: self.last,
            real: u64::try_from(real).unwrap_or(0),
            change,
        });
    }

    /// Whether everything after this number is remembered.
    fn reaches_back_to(&self, since: u64) -> bool {
        let before_first = self.last - self.events.len() as u64;
        since >= before_first && since <= self.last
    }

    fn after(&self, since: u64) -> impl Iterator<Item = &Event> {
        let from = self.events.partition_point(|event| event.sequence <= since);
        self.events.range(from..)
    }
}

/// Somebody who is told of changes.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) call: CallId,
    patterns: Vec<String>,
    /// Told up to this number.
    told: u64,
    /// Something was missed.
    resync: bool,
    /// Has got its first reply, which says where it stands.
    greeted: bool,
}

impl Subscriber {
    /// A new one; `None` if it asks for too much.
    pub(super) fn new(call: CallId, wanted: SubscribeCall, log: &EventLog) -> Option<Self> {
        if wanted.units.len() > MAX_PATTERNS {
            return None;
        }
        let known = wanted.since.is_some_and(|since| log.reaches_back_to(since));
        Some(Self {
            call,
            patterns: wanted.units,
            told: wanted.since.filter(|_| known).unwrap_or(log.last()),
            // Whoever has seen nothing has nothing to read anew.
            resync: wanted.since.is_some() && !known,
            greeted: false,
        })
    }

    /// What to tell it next; `None` if it knows everything.
    pub(super) fn next_reply(&self, log: &EventLog) -> Option<SubscribeReply> {
        let resync = self.resync || !log.reaches_back_to(self.told);
        if resync {
            return Some(SubscribeReply {
                resync: true,
                sequence: log.last(),
                events: Vec::new(),
            });
        }
        let mut sequence = log.last();
        let mut events: Vec<Event> = Vec::new();
        for event in log.after(self.told).filter(|event| self.wants(event)) {
            if events.len() == BATCH {
                sequence = events.last().map_or(sequence, |last| last.sequence);
                break;
            }
            events.push(event.clone());
        }
        if events.is_empty() && self.greeted {
            return None;
        }
        Some(SubscribeReply {
            resync: false,
            sequence,
            events,
        })
    }

    /// It was told this.
    pub(super) fn told(&mut self, sequence: u64) {
        self.told = sequence;
        self.resync = false;
        self.greeted = true;
    }

    fn wants(&self, event: &Event) -> bool {
        let unit = match &event.change {
            Change::Unit { unit, .. } | Change::JobNew { unit, .. } => unit,
            Change::JobGone(gone) => &gone.unit,
            Change::Reloaded {} | Change::Machine { .. } => return true,
        };
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| glob(pattern, unit))
    }
}

#[cfg(test)]
mod tests;
