//! Which messages are on their way, and which is sent next. Pure: the time comes in.
//!
//! ```text
//!            sent                  acknowledged
//! waiting ----------> in flight ----------------> gone
//!    ^                   |
//!    +-------------------+  refused, late, or the connection is lost
//! ```
//! A message that is refused or late waits for a time of its own and holds up no other. After a lost connection all of them
//! are sent again, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The longest a refused or late message waits.
const LONGEST: Duration = Duration::from_secs(600);
/// What a refusal that says no time means.
const REFUSED: Duration = Duration::from_millis(500);

/// Whose message it is, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// A request that somebody waits for.
    Request(u64),
    /// The status of the Unit.
    Status,
    /// A kept message.
    Row(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// To be sent, at this time or later.
    Waiting(Option<Instant>),
    /// Sent; to be sent again at this time.
    InFlight(Instant),
}

#[derive(Debug)]
struct Flight {
    txn: String,
    stage: Stage,
    /// How often it was sent on this connection.
    tries: u32,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Window {
    /// In flight, at most.
    width: usize,
    /// In flight and waiting for another time, at most.
    held: usize,
    response_timeout: Duration,
    flights: BTreeMap<Slot, Flight>,
}

impl Window {
    pub(crate) fn new(width: usize, response_timeout: Duration) -> Self {
        let width = width.max(1);
        Self {
            width,
            held: width.saturating_mul(8),
            response_timeout,
            flights: BTreeMap::new(),
        }
    }

    /// How many more kept messages can be taken.
    pub(crate) fn room(&self) -> usize {
        self.held.saturating_sub(self.flights.len())
    }

    /// Has a message sent; it takes the place of the slot's earlier one.
    pub(crate) fn add(&mut self, slot: Slot, txn: String) {
        let flight = Flight {
            txn,
            stage: Stage::Waiting(None),
            tries: 0,
        };
        self.flights.insert(slot, flight);
    }

    /// Forgets a message.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.flights.remove(&slot);
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.flights.contains_key(&slot)
    }

    /// What is to be sent now, with its name.
    pub(crate) fn next(&self, now: Instant) -> Option<(Slot, &str)> {
        let in_flight = |stage| matches!(stage, Stage::InFlight(until) if until > now);
        let busy = self.flights.values().filter(|it| in_flight(it.stage));
        if busy.count() >= self.width {
            return None;
        }
        let due = |flight: &Flight| match flight.stage {
            Stage::Waiting(since) => since.is_none_or(|it| it <= now),
            Stage::InFlight(until) => until <= now,
        };
        let next = self.flights.iter().find(|(_, flight)| due(flight));
        next.map(|(slot, flight)| (*slot, flight.txn.as_str()))
    }

    /// It is being sent.
    pub(crate) fn sent(&mut self, slot: Slot, now: Instant) {
        if let Some(flight) = self.flights.get_mut(&slot) {
            let patience = doubled(self.response_timeout, flight.tries);
            flight.stage = Stage::InFlight(now + patience);
            flight.tries = flight.tries.saturating_add(1);
        }
    }

    /// The cloud has it. Says whose it was, if it was sent on this connection.
    pub(crate) fn acknowledged(&mut self, txn: &str) -> Option<Slot> {
        let slot = self.slot_of(txn)?;
        self.flights.remove(&slot);
        Some(slot)
    }

    /// The cloud wants it again, after a while.
    pub(crate) fn refused(&mut self, txn: &str, retry_after: Option<Duration>, now: Instant) {
        let Some(slot) = self.slot_of(txn) else {
            return;
        };
        if let Some(flight) = self.flights.get_mut(&slot) {
            // A cloud that refuses the same again and again is not asked more often for that.
            let least = doubled(REFUSED, flight.tries.saturating_sub(1));
            let wait = retry_after.unwrap_or(least).max(least).min(LONGEST);
            flight.stage = Stage::Waiting(Some(now + wait));
        }
    }

    /// A name counts only after its message was sent: a cloud cannot acknowledge what it has not got.
    fn slot_of(&self, txn: &str) -> Option<Slot> {
        let sent = |flight: &Flight| flight.tries > 0 && flight.txn == txn;
        let found = self.flights.iter().find(|(_, flight)| sent(flight));
        found.map(|(slot, _)| *slot)
    }

    /// Nothing is on its way any more.
    pub(crate) fn disconnected(&mut self) {
        for flight in self.flights.values_mut() {
            flight.stage = Stage::Waiting(None);
            flight.tries = 0;
        }
    }

    /// When there may be something to send that cannot be sent now. What is due and has no place waits for a message in flight,
    /// which has a time of its own.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let times = self.flights.values().filter_map(|it| match it.stage {
            Stage::Waiting(since) => since,
            Stage::InFlight(until) => Some(until),
        });
        times.filter(|it| *it > now).min()
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first
        .saturating_mul(1u32.checked_shl(times.min(20)).unwrap_or(u32::MAX))
        .min(LONGEST)
        .max(first)
}

#[cfg(test)]
mod tests;
