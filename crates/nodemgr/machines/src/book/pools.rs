//! Pools that stay warm.

use std::sync::Arc;

use muster_lifecycle::pool::{Member, PoolSize, plan};
use muster_lifecycle::{Moment, Reason, State, Verb};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;
use serde::{Deserialize, Serialize};

use super::{Book, is_ready};
use crate::error::{AskError, ClaimError};
use crate::event::Happened;
use crate::record::{MachineOrder, Record};

/// A warm pool: machines that are ready before somebody asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// How large it is.
    pub size: PoolSize,
    /// What its machines are like. Its key must not be set: every machine is one of its own.
    pub order: MachineOrder,
    /// What they are like where that cannot be had, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MachineOrder>,
    /// Whether the configuration asks for it: then it goes when the configuration does not any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured: bool,
}

/// A change of a pool that is to be written down.
#[derive(Debug)]
pub(crate) enum PoolChange {
    Set(String, Box<Pool>),
    Removed(String),
}

#[derive(Debug)]
pub(super) struct PoolState {
    pool: Pool,
    /// Machines could not be made: not before then again. The best is tried first then.
    retry_at: Option<Moment>,
    /// Which of the orders is next, from 0, the best.
    next: usize,
    /// The best is tried again from then on.
    best_at: Option<Moment>,
    failures: u32,
}

impl PoolState {
    pub(super) const fn new(pool: Pool) -> Self {
        Self {
            pool,
            retry_at: None,
            next: 0,
            best_at: None,
            failures: 0,
        }
    }

    fn order(&self) -> &MachineOrder {
        let other = self.next.checked_sub(1);
        let other = other.and_then(|at| self.pool.others.get(at));
        other.unwrap_or(&self.pool.order)
    }

    /// What was ordered cannot be had now: the next best is. After the last of them, nothing for a while.
    fn pass_over(&mut self, best_at: Moment, retry_at: impl FnOnce(u32) -> Moment) {
        if self.next < self.pool.others.len() {
            self.next += 1;
            self.best_at = self.best_at.or(Some(best_at));
            return;
        }
        (self.next, self.best_at) = (0, None);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(retry_at(self.failures));
    }

    /// Whether the pool makes such machines now, or would where the best cannot be had.
    pub(super) fn makes(&self, order: &MachineOrder) -> bool {
        let mut orders = std::iter::once(&self.pool.order).chain(&self.pool.others);
        orders.any(|it| it.is_for_the_same(order))
    }

    /// What could not be had may be there again.
    fn begin_with_best(&mut self, now: Moment) {
        if self.best_at.is_some_and(|at| at <= now) {
            (self.next, self.best_at) = (0, None);
        }
    }

    pub(super) const fn retry_at(&self) -> Option<Moment> {
        self.retry_at
    }
}

impl Book {
    /// Makes or changes a pool. Machines that it does not make any more leave it with its next plan.
    pub(crate) fn set_pool(&mut self, name: String, mut pool: Pool) {
        for order in pool.others.iter_mut().chain([&mut pool.order]) {
            (order.key, order.asked) = (None, None);
        }
        let change = PoolChange::Set(name.clone(), Box::new(pool.clone()));
        self.turn.pools.push(change);
        self.pools.insert(name.clone(), PoolState::new(pool));
        self.unplanned.insert(name);
    }

    /// Gives a pool up. Its machines stay, and age.
    pub(crate) fn remove_pool(&mut self, name: &str, now: Moment) -> bool {
        if self.pools.remove(name).is_none() {
            return false;
        }
        self.turn.pools.push(PoolChange::Removed(name.to_owned()));
        for id in self.members(name) {
            self.keep_warm(&id, false, now);
        }
        true
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (&String, &Pool)> {
        self.pools.iter().map(|(name, state)| (name, &state.pool))
    }

    pub(super) fn members(&self, pool: &str) -> Vec<MachineId> {
        let entries = self.entries.values().map(|entry| &entry.record);
        let members = entries.filter(|it| it.pool.as_deref() == Some(pool) && !it.is_gone());
        members.map(|record| record.id.clone()).collect()
    }

    /// Takes a machine that answers and has no work out of a pool.
    pub(crate) fn claim(
        &mut self,
        pool: &str,
        by: &str,
        now: Moment,
    ) -> Result<MachineId, ClaimError> {
        let Some(state) = self.pools.get(pool) else {
            return Err(ClaimError::Unknown(pool.to_owned()));
        };
        let free = |record: &Record| {
            record.claimed.is_none() && record.unit.is_none() && state.makes(&record.order)
        };
        let found = self.members(pool).into_iter().find(|id| {
            let (record, load) = (&self.entries[id].record, &self.entries[id].load);
            free(record) && is_ready(record, load) && !load.work().is_busy(now)
        });
        let id = found.ok_or_else(|| ClaimError::NoneReady(pool.to_owned()))?;
        self.change(&id, |record| {
            record.claimed = Some(by.to_owned());
            record.untouched = false;
        });
        let by = by.to_owned();
        self.tell(&id, Happened::Claimed { by }, now);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.load.touch(now);
            entry.kept_warm = false;
        }
        self.settle_machine(&id, now);
        Ok(id)
    }

    /// Gives a machine back to its pool.
    pub(crate) fn release(&mut self, id: &MachineId, now: Moment) -> Result<(), AskError> {
        let Some(record) = self.record(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        if record.pool.is_none() {
            return Err(AskError::NoPool(id.clone()));
        }
        if record.claimed.is_none() {
            return Ok(());
        }
        self.change(id, |record| record.claimed = None);
        self.tell(id, Happened::Released, now);
        self.settle_machine(id, now);
        Ok(())
    }

    /// A machine of a pool could not be made: the next one is made elsewhere, or not at once.
    pub(super) fn pool_failed(&mut self, id: &MachineId, now: Moment) {
        let Some(record) = self.record(id).map(Arc::clone) else {
            return;
        };
        let Some(state) = record.pool.as_ref().and_then(|it| self.pools.get_mut(it)) else {
            return;
        };
        // Several that were ordered together fail together, and say the same.
        if state.retry_at.is_none() && *state.order() == record.order {
            let settings = &self.settings;
            let best_at = now.after(settings.retry_longest);
            state.pass_over(best_at, |failures| now.after(settings.wait_after(failures)));
        }
    }

    /// A machine of a pool changed: the pool is planned at the end of the turn.
    pub(super) fn mark_pool_of(&mut self, id: &MachineId) {
        let Some(record) = self.entries.get(id).map(|entry| &entry.record) else {
            return;
        };
        let Some(name) = &record.pool else {
            return;
        };
        if let Some(state) = self.pools.get_mut(name) {
            if record.state() == State::Running {
                state.failures = 0;
            }
            self.unplanned.insert(name.clone());
        }
    }

    /// Pools that could not make machines try again.
    pub(super) fn retry_pools(&mut self, now: Moment) {
        for (name, state) in &mut self.pools {
            if state.retry_at.is_some_and(|at| at <= now) {
                state.retry_at = None;
                self.unplanned.insert(name.clone());
            }
        }
    }

    /// Plans the pools that something happened to. What a plan itself changes it has taken into account.
    pub(super) fn plan_pools(&mut self, now: Moment) {
        for name in std::mem::take(&mut self.unplanned) {
            self.plan_pool(&name, now);
        }
        self.unplanned.clear();
    }

    fn plan_pool(&mut self, name: &str, now: Moment) {
        self.let_go_of_former(name, now);
        let Some(state) = self.pools.get(name) else {
            return;
        };
        let size = state.pool.size;
        let ids = self.members(name);
        let members: Vec<Member<usize>> = ids
            .iter()
            .enumerate()
            .map(|(index, id)| self.member(index, id, |order| state.makes(order), now))
            .collect();
        let plan = plan(size, &members);
        for (index, id) in ids.iter().enumerate() {
            self.keep_warm(id, plan.keep.contains(&index), now);
        }
        for index in plan.start {
            // A member that can be started was planned; one that changed meanwhile is planned anew then.
            let _ = self.ask(&ids[index], Verb::Start, Reason::Pool, now);
        }
        self.make(name, plan.make, now);
    }

    /// Orders so many for a pool: the best that can be had.
    fn make(&mut self, name: &str, count: u32, now: Moment) {
        let mut left = count;
        while left > 0 {
            let Some(state) = self.pools.get_mut(name) else {
                return;
            };
            if state.retry_at.is_some() {
                return;
            }
            state.begin_with_best(now);
            let order = state.order().clone();
            let Err(error) = self.order(order, Some(name.to_owned()), now) else {
                left -= 1;
                continue;
            };
            tracing::warn!(pool = name, error = %ErrorChain(&error), "a pool cannot make a machine there");
            let wait = now.after(self.settings.wait_after(u32::MAX));
            if let Some(state) = self.pools.get_mut(name) {
                state.pass_over(wait, |_| wait);
            }
        }
    }

    fn member(
        &self,
        index: usize,
        id: &MachineId,
        makes: impl Fn(&MachineOrder) -> bool,
        now: Moment,
    ) -> Member<usize> {
        let entry = &self.entries[id];
        let task = entry.record.made().and_then(|made| made.life.task());
        Member {
            id: index,
            state: entry.record.state(),
            task: task.map(|task| task.verb),
            taken: entry.record.claimed.is_some()
                || entry.record.unit.is_some()
                || entry.load.work().is_busy(now)
                || !makes(&entry.record.order),
            reachable: !entry.is_silent(),
            rests: entry.rest.lasts(now),
            supported: self.verbs(&entry.record),
        }
    }

    pub(super) fn keep_warm(&mut self, id: &MachineId, kept: bool, now: Moment) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if entry.kept_warm == kept {
            return;
        }
        entry.kept_warm = kept;
        if !kept {
            // It counted as needed until now.
            entry.load.touch(now);
            self.agenda.set(id, Some(now));
        }
    }
}
