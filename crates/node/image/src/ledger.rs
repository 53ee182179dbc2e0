//! The inventory in memory, what is promised of the space, and who works on what.

use std::collections::{BTreeMap, BTreeSet};
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
    /// No longer in the inventory, but their records and files may still be there: nobody may put them there anew yet.
    pub(crate) going: BTreeSet<Digest>,
    /// Pinned when the store was opened, because nobody could say who needs them.
    recovered: BTreeSet<Digest>,
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

/// Space that a download may take. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    bytes: u64,
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
            bytes,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.ledger.lock().reserved -= self.bytes;
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
}
