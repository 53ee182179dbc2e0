//! Which steps are at work on which machine: so that whoever ends what is left of a step never ends what the step has begun since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::job::Slot;

/// The steps at work on the machines of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtWork(Arc<Mutex<BTreeMap<Slot, Place>>>);

#[derive(Debug, Default)]
struct Place {
    steps: BTreeSet<Box<str>>,
    /// Held by whoever ends what is left there. A step does its first action after it had this.
    ending: Arc<tokio::sync::Mutex<()>>,
}

/// A step is at work until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    at_work: AtWork,
    slot: Slot,
    step: Box<str>,
}

impl AtWork {
    fn places(&self) -> MutexGuard<'_, BTreeMap<Slot, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step is at work from now on: what is left of it, it ends itself.
    pub(super) fn enter(&self, slot: &Slot, step: &str) -> Entered {
        let mut places = self.places();
        let place = places.entry(slot.clone()).or_default();
        place.steps.insert(step.into());
        Entered {
            at_work: self.clone(),
            slot: slot.clone(),
            step: step.into(),
        }
    }

    pub(super) fn has(&self, slot: &Slot, step: &str) -> bool {
        let places = self.places();
        let place = places.get(slot);
        place.is_some_and(|place| place.steps.contains(step))
    }

    /// Waits until nobody else ends what is left on a machine. As long as this is held, no step does its first action there.
    pub(super) async fn alone(&self, slot: &Slot) -> OwnedMutexGuard<()> {
        let ending = Arc::clone(&self.places().entry(slot.clone()).or_default().ending);
        ending.lock_owned().await
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(place) = self.at_work.places().get_mut(&self.slot) {
            place.steps.remove(&self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_is_at_work_from_before_it_waits_for_whoever_ends_what_is_left() {
        let at_work = AtWork::default();
        let (slot, other) = (Slot::new("a", 0), Slot::new("a", 1));
        let ending = at_work.alone(&slot).await;
        assert!(!at_work.has(&slot, "build"));
        let entered = at_work.enter(&slot, "build");
        assert!(at_work.has(&slot, "build") && !at_work.has(&other, "build"));
        let mut next = Box::pin(at_work.alone(&slot));
        assert!(
            futures_util::poll!(&mut next).is_pending(),
            "it does nothing while another is ended"
        );
        // Another machine has nothing to do with it.
        drop(at_work.alone(&other).await);
        drop(ending);
        drop(next.await);
        drop(entered);
        assert!(!at_work.has(&slot, "build"));
    }
}
