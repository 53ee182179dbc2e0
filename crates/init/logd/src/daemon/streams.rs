//! All streams that are read, and those that an earlier process has read and nobody has given again.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd as _, OwnedFd};

use muster_control::feed::Stream;

use super::poll::{Poll, Source};
use crate::input::{StreamSource, StreamState, Taken, record_orphan};
use crate::parse::priority::Level;
use crate::recorder::{Recorder, chain, now};
use crate::state::SlotIndex;

/// How long a manager that said hello may take to give all streams, in microseconds.
const GIVING_US: u64 = 10_000_000;
/// How long a manager may take to say hello; it may be starting itself.
const HELLO_US: u64 = 60_000_000;

#[derive(Debug)]
pub(super) struct Streams {
    open: HashMap<SlotIndex, StreamSource>,
    /// Places that an earlier process has left and whose streams have not come back.
    left: BTreeSet<SlotIndex>,
    /// When they are not expected any more.
    left_until_us: u64,
}

impl Streams {
    /// Nothing open yet. Without a feed, nothing that was left can come back.
    pub(super) fn new(recorder: &Recorder, has_feed: bool) -> Self {
        let patience = if has_feed { HELLO_US } else { 0 };
        Self {
            open: HashMap::new(),
            left: recorder.ledger.left_slots().into_iter().collect(),
            left_until_us: now().monotonic_us.saturating_add(patience),
        }
    }

    /// The manager has begun to give all living streams.
    pub(super) fn expect_all(&mut self) {
        self.left_until_us = now().monotonic_us.saturating_add(GIVING_US);
    }

    /// Takes a stream; one that is known already only gets its new description.
    pub(super) fn take(
        &mut self,
        descriptor: OwnedFd,
        stream: &Stream,
        recorder: &mut Recorder,
        poll: &Poll,
    ) {
        let known = recorder.ledger.slot_of(descriptor.as_fd());
        if let Some(source) = known.and_then(|slot| self.open.get_mut(&slot)) {
            return source.describe_again(stream, recorder);
        }
        let source = match StreamSource::new(descriptor, stream, recorder) {
            Ok(source) => source,
            Err(error) => return refuse(stream, &error, recorder),
        };
        let slot = source.slot();
        self.left.remove(&slot);
        match poll.add(source.as_fd(), Source::Stream(slot)) {
            Ok(()) => {
                self.open.insert(slot, source);
            }
            Err(error) => refuse(stream, &error, recorder),
        }
    }

    /// Reads a stream.
    pub(super) fn turn(&mut self, slot: SlotIndex, recorder: &mut Recorder, poll: &Poll) -> Taken {
        let Some(source) = self.open.get_mut(&slot) else {
            return Taken::All;
        };
        match source.turn(recorder) {
            Ok(StreamState::Open) => return Taken::Some,
            Ok(StreamState::Empty) => return Taken::All,
            Ok(StreamState::Ended) => {}
            Err(error) => recorder.say(Level::ERR, &chain(&error), &[]),
        }
        poll.remove(source.as_fd());
        self.open.remove(&slot);
        recorder.ledger.release(slot);
        Taken::All
    }

    /// Reads everything that was written to all streams until now, and not what is written meanwhile.
    pub(super) fn drain(&mut self, recorder: &mut Recorder, poll: &Poll) {
        let slots: Vec<SlotIndex> = self.open.keys().copied().collect();
        for slot in slots {
            let taken = |streams: &Self| {
                streams
                    .open
                    .get(&slot)
                    .map_or(u64::MAX, StreamSource::taken)
            };
            let waiting = self.open.get(&slot).map_or(0, StreamSource::waiting);
            let wanted = taken(self).saturating_add(waiting);
            while taken(self) < wanted && self.turn(slot, recorder, poll) == Taken::Some {}
            // Nothing waits: then it is empty, or its writer has gone, which only a read tells.
            if self
                .open
                .get(&slot)
                .is_some_and(|source| source.waiting() == 0)
            {
                self.turn(slot, recorder, poll);
            }
        }
    }

    /// Records what is left of streams that did not come back, when it is time. Says when that is.
    pub(super) fn adopt_orphans(&mut self, now_us: u64, recorder: &mut Recorder) -> Option<u64> {
        if self.left.is_empty() {
            return None;
        }
        if now_us < self.left_until_us {
            return Some(self.left_until_us);
        }
        for slot in std::mem::take(&mut self.left) {
            record_orphan(slot, recorder);
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

fn refuse(stream: &Stream, error: &dyn std::error::Error, recorder: &mut Recorder) {
    recorder.counters.refused += 1;
    let message = format!(
        "The output of {} cannot be read: {}",
        stream.unit,
        chain(error)
    );
    recorder.say(Level::ERR, &message, &[("UNIT", &stream.unit)]);
}
