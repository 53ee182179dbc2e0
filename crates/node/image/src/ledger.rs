//! The inventory in memory, what is promised of the space, and who works on what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use muster_api::domain::Digest;
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::inventory::Inventory;

/// The inventory and the space that running downloads may still take.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    /// Something that was going is gone.
    gone: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) inventory: Inventory,
    pub(crate) reserved: u64,
    /// Of what is reserved, this much is on disk: the file system no longer has it to give.
    written: u64,
    /// No longer in the inventory, but their records and files may still be there: nobody may put them there anew yet.
    pub(crate) going: BTreeSet<Digest>,
    /// Pinned when the store was opened, because nobody could say who needs them.
    recovered: BTreeSet<Digest>,
}

impl State {
    /// What running downloads may still take of what the file system has left.
    pub(crate) fn still_to_come(&self) -> u64 {
        self.reserved.saturating_sub(self.written)
    }
}

impl Ledger {
    pub(crate) fn new(inventory: Inventory) -> Self {
        let state = State {
            recovered: inventory.pins.keys().copied().collect(),
            inventory,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            gone: Notify::new(),
        }
    }

    /// Held for a moment only, never across I/O.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing that holds this lock can panic")
    }
}

impl Ledger {
    /// Lets what was found without anybody to need it be collected: its space is needed for what is wanted.
    pub(crate) fn give_recovered_up(&self) {
        let mut state = self.lock();
        for digest in std::mem::take(&mut state.recovered) {
            unpin(&mut state.inventory, digest);
        }
    }

    /// Returns when nothing of this digest is being removed any more. Whoever wants it to stay that way has pinned it before.
    pub(crate) async fn until_gone(&self, digest: &Digest) {
        loop {
            // Made before the look, so that a removal that ends in between is heard of.
            let gone = self.gone.notified();
            if !self.lock().going.contains(digest) {
                return;
            }
            gone.await;
        }
    }
}

/// Digests whose records and files are being removed. Entered under the same lock that took them from the inventory.
#[derive(Debug)]
pub(crate) struct Going {
    ledger: Arc<Ledger>,
    digests: Vec<Digest>,
}

impl Going {
    pub(crate) fn enter(
        ledger: &Arc<Ledger>,
        state: &mut State,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Self {
        let digests: Vec<Digest> = digests.into_iter().collect();
        state.going.extend(&digests);
        Self {
            ledger: Arc::clone(ledger),
            digests,
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        for digest in &self.digests {
            state.going.remove(digest);
        }
        drop(state);
        self.ledger.gone.notify_waiters();
    }
}

/// Space that a download or what is made of it may take. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    /// Written only while the ledger is locked.
    bytes: AtomicU64,
    /// Of these, so many are on disk. Never more, and written under the same lock.
    written: AtomicU64,
}

impl Reservation {
    /// Takes space if used and promised space stay below `limit`; says how much is missing otherwise.
    pub(crate) fn take(ledger: &Arc<Ledger>, bytes: u64, limit: u64) -> Result<Self, u64> {
        let mut state = ledger.lock();
        let used = state.inventory.used_bytes();
        // Sizes are claims of documents: a sum that no number holds is no space that anybody has.
        let reserved = state.reserved.checked_add(bytes).ok_or(bytes)?;
        let wanted = used.saturating_add(reserved);
        if wanted > limit {
            return Err(wanted - limit);
        }
        state.reserved = reserved;
        drop(state);
        Ok(Self {
            ledger: Arc::clone(ledger),
            bytes: AtomicU64::new(bytes),
            written: AtomicU64::new(0),
        })
    }

    /// The same space as two: without so many bytes, and these. Nothing of it has been written yet.
    pub(crate) fn split(self, bytes: u64) -> (Self, Self) {
        let state = self.ledger.lock();
        let all = self.bytes.load(Ordering::Relaxed);
        let bytes = bytes.min(all);
        self.bytes.store(all - bytes, Ordering::Relaxed);
        drop(state);
        let part = Self {
            ledger: Arc::clone(&self.ledger),
            bytes: AtomicU64::new(bytes),
            written: AtomicU64::new(0),
        };
        (self, part)
    }

    /// Sees to it that it is for so many bytes in all, if used and promised space stay below `limit` with that; says how much is
    /// missing otherwise.
    pub(crate) fn extend_to(&self, bytes: u64, limit: u64) -> Result<(), u64> {
        if bytes <= self.bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.ledger.lock();
        let more = bytes.saturating_sub(self.bytes.load(Ordering::Relaxed));
        let used = state.inventory.used_bytes();
        let reserved = state.reserved.checked_add(more).ok_or(more)?;
        let wanted = used.saturating_add(reserved);
        if wanted > limit {
            return Err(wanted - limit);
        }
        state.reserved = reserved;
        self.bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// So many bytes in all are on disk. What was written beyond what is reserved was nobody's promise.
    pub(crate) fn wrote(&self, bytes: u64) {
        let mut state = self.ledger.lock();
        let bytes = bytes.min(self.bytes.load(Ordering::Relaxed));
        let before = self.written.swap(bytes, Ordering::Relaxed);
        state.written = state.written - before + bytes;
    }

    /// What it was for is in the inventory from now on, under the lock that is held.
    pub(crate) fn give_back(&self, state: &mut State) {
        state.reserved -= self.bytes.swap(0, Ordering::Relaxed);
        state.written -= self.written.swap(0, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let ledger = Arc::clone(&self.ledger);
        self.give_back(&mut ledger.lock());
    }
}

/// Keeps what an installation uses from being collected. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Pins {
    ledger: Arc<Ledger>,
    digests: Mutex<Vec<Digest>>,
}

impl Pins {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            digests: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, digest: Digest) {
        *self.ledger.lock().inventory.pins.entry(digest).or_default() += 1;
        let mut digests = self.digests.lock().expect("nothing here can panic");
        digests.push(digest);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let inventory = &mut self.ledger.lock().inventory;
        let digests = self.digests.get_mut().expect("nothing here can panic");
        for digest in digests {
            unpin(inventory, *digest);
        }
    }
}

fn unpin(inventory: &mut Inventory, digest: Digest) {
    match inventory.pins.get_mut(&digest) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            inventory.pins.remove(&digest);
        }
    }
}

/// One worker per digest at a time. A second one waits, and then finds the work done.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: Mutex<BTreeMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

impl Turns {
    pub(crate) async fn take(&self, digest: Digest) -> OwnedMutexGuard<()> {
        let turn = {
            let mut waiting = self.waiting.lock().expect("nothing here can panic");
            waiting.retain(|_, turn| turn.strong_count() > 0);
            match waiting.get(&digest).and_then(Weak::upgrade) {
                Some(turn) => turn,
                None => {
                    let turn = Arc::default();
                    waiting.insert(digest, Arc::downgrade(&turn));
                    turn
                }
            }
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_no_number_holds_are_refused() {
        let ledger = Arc::new(Ledger::default());
        let first = Reservation::take(&ledger, u64::MAX, u64::MAX).expect("no limit");
        assert_eq!(Reservation::take(&ledger, 7, u64::MAX).err(), Some(7));
        drop(first);
        assert_eq!(ledger.lock().reserved, 0);
    }

    #[test]
    fn those_that_grow_together_stay_below_the_limit() {
        let ledger = Arc::new(Ledger::default());
        let take = || Reservation::take(&ledger, 10, 100).expect("there is room");
        let (one, other) = (take(), take());
        assert_eq!(one.extend_to(60, 100), Ok(()));
        assert_eq!(other.extend_to(40, 100), Ok(()));
        assert_eq!(one.extend_to(60, 100), Ok(()), "it has that");
        assert_eq!(one.extend_to(61, 100), Err(1));
        assert_eq!(other.extend_to(43, 100), Err(3));
        assert_eq!(ledger.lock().reserved, 100);
        // What one of them was for is in the inventory, and smaller.
        one.give_back(&mut ledger.lock());
        assert_eq!(other.extend_to(100, 100), Ok(()));
        drop(one);
        assert_eq!(ledger.lock().reserved, 100);
        drop(other);
        assert_eq!(ledger.lock().reserved, 0);
    }

    #[test]
    fn what_is_on_disk_is_not_still_to_come() {
        let ledger = Arc::new(Ledger::default());
        let to_come = || ledger.lock().still_to_come();
        let take = |bytes| Reservation::take(&ledger, bytes, u64::MAX).expect("no limit");
        let (space, content) = take(100).split(60);
        assert_eq!(to_come(), 100);
        space.wrote(30);
        space.wrote(35);
        content.wrote(10);
        assert_eq!(to_come(), 55);
        // The limit that was set is about all of it.
        assert_eq!(ledger.lock().reserved, 100);
        content.wrote(200);
        assert_eq!(to_come(), 5, "more was written than was promised");
        content.extend_to(300, u64::MAX).expect("no limit");
        content.wrote(250);
        assert_eq!(to_come(), 55);
        space.give_back(&mut ledger.lock());
        assert_eq!(to_come(), 50);
        space.wrote(40);
        assert_eq!(to_come(), 50, "it is over");
        drop((space, content));
        assert_eq!((to_come(), ledger.lock().written), (0, 0));
    }
}
