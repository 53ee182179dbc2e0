//! Machines that a pool made before it was changed, and makes no more.

use muster_lifecycle::{Moment, Reason, Verb};
use muster_provider::MachineId;

use super::Book;

impl Book {
    /// What a pool makes no more leaves it: what nobody ever used goes, and everything else ages by its timers. What somebody has
    /// taken stays until it is given back.
    pub(super) fn let_go_of_former(&mut self, pool: &str, now: Moment) {
        for id in self.former(pool) {
            if self.is_unused(&id, now) {
                // It is refused where the machine cannot be ended now; it counts for nothing then, and the next plan asks again.
                let _ = self.ask(&id, Verb::Terminate, Reason::Replaced, now);
            } else {
                self.keep_warm(&id, false, now);
                self.change(&id, |record| record.pool = None);
            }
        }
    }

    fn former(&self, pool: &str) -> Vec<MachineId> {
        let Some(state) = self.pools.get(pool) else {
            return Vec::new();
        };
        let mut members = self.members(pool);
        members.retain(|id| {
            let record = self.record(id);
            // Of a provider that is not there now, nothing is known that would be a reason.
            record.is_some_and(|it| {
                let known = self.sources.contains_key(&it.order.provider);
                known && it.claimed.is_none() && !state.makes(&it.order)
            })
        });
        members
    }

    /// Whether nobody has ever used a machine of a pool, or is about to.
    fn is_unused(&self, id: &MachineId, now: Moment) -> bool {
        self.entries.get(id).is_some_and(|entry| {
            let record = &entry.record;
            let busy = entry.load.has_worked() || entry.load.work().is_busy(now);
            record.untouched && record.unit.is_none() && !busy
        })
    }
}
