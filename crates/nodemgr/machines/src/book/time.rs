//! What time does to machines: their timers run out, and what was not done is asked again later and later.

use std::sync::Arc;

use muster_lifecycle::timers::{Due, Facts, due, stays};
use muster_lifecycle::{Moment, Patience, Reason, State, Verb, VerbSet};
use muster_provider::{FailureClass, MachineId};

use super::{Book, Doing};
use crate::activity::Contact;
use crate::event::Happened;
use crate::record::{Phase, Record};

/// What the owner of a machine reads that is idle and stays.
const STAYS: &str = "it has been idle for as long as its timer allows, and it can neither be stopped nor hibernated: destroy it, or make such machines with `whenIdle: terminate`";

/// What came of what timers and pools asked of a machine. Whoever asks by hand begins anew.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    /// Nothing was done, so nothing is asked before then.
    until: Option<Moment>,
    /// How often in a row.
    in_a_row: u32,
    /// What its provider will never do with it, though it said that it can.
    refused: VerbSet,
}

impl Rest {
    pub(super) fn lasts(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

impl Book {
    /// What was asked of a machine was done.
    pub(super) fn wake_up(&mut self, id: &MachineId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.rest.until = None;
            entry.rest.in_a_row = 0;
        }
    }

    /// What was asked of a machine will not be done: if nobody asked by hand, it is left alone for a while.
    pub(super) fn let_rest(&mut self, id: &MachineId, now: Moment) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let task = entry.record.made().and_then(|made| made.life.task());
        if task.is_some_and(|task| task.reason != Reason::Asked) {
            let rest = &mut entry.rest;
            rest.in_a_row = rest.in_a_row.saturating_add(1);
            rest.until = Some(now.after(self.settings.rest_after(rest.in_a_row)));
        }
    }

    /// A provider will not hibernate a machine: its timer does what comes next. One that refuses may do so for the moment, as EC2
    /// does with a machine that has just booted, so it is asked again after each rest before that is believed.
    pub(super) fn never_again(&mut self, id: &MachineId, verb: Verb, class: FailureClass) {
        let attempts = self.settings.attempts;
        if let Some(entry) = self.entries.get_mut(id)
            && verb == Verb::Hibernate
        {
            let refuses = !class.is_retryable() && entry.rest.in_a_row >= attempts;
            if class == FailureClass::Unsupported || refuses {
                entry.rest.refused = VerbSet::of(&[Verb::Hibernate]);
            }
        }
    }

    /// What can be asked of a machine.
    pub(super) fn verbs(&self, record: &Record) -> VerbSet {
        let source = self.sources.get(&record.order.provider);
        record.verbs(source.map_or(VerbSet::NONE, |source| source.verbs))
    }

    /// What time does to a machine that exists and of which nothing has to be asked now.
    pub(super) fn watch_time(&mut self, id: &MachineId, now: Moment) -> Option<Moment> {
        let entry = self.entries.get(id)?;
        let record = Arc::clone(&entry.record);
        let made = record.made()?;
        self.sources.get(&record.order.provider)?;
        let verbs = self.verbs(&record);
        if let Some(task) = made.life.task() {
            let (grace, settle) = (self.settings.stop_grace, self.settings.settle);
            return match made.life.patience(grace, settle, verbs, now)? {
                Patience::Until(at) => Some(at),
                Patience::Force => {
                    let reason = task.reason;
                    self.ask_by_time(id, Verb::ForceStop, reason, now)
                }
                Patience::GiveUp => {
                    self.free(id);
                    let why = "it was started, and is stopped all the same".to_owned();
                    self.give_up(id, task.verb, why, now);
                    self.watch_time(id, now)
                }
            };
        }
        let refused = entry.rest.refused.iter();
        let facts = Facts {
            state: made.life.state(),
            since: made.life.since(),
            made: made.at,
            work: entry.load.work(),
            reachable: !entry.is_silent(),
            kept_warm: entry.kept_warm,
            is_node: record.unit.is_some(),
            supported: refused.fold(verbs, |set, verb| set.without(verb)),
        };
        let rests_until = entry.rest.until.filter(|&until| until > now);
        let given_up = self.end_of_silence(id).filter(|_| !facts.work.is_busy(now));
        if given_up.is_some_and(|at| at <= now) {
            return self.ask_by_time(id, Verb::Terminate, Reason::Silent, now);
        }
        let timers = &record.order.timers;
        self.say_whether_it_stays(id, stays(timers, &facts, now), now);
        let next = match due(timers, &facts, now) {
            Due::Never => None,
            Due::At(at) => Some(at),
            Due::Held => {
                self.held.insert(id.clone());
                // A heartbeat runs out without a word.
                let until = facts.work.heartbeat_until.filter(|&until| until > now);
                Some(until.unwrap_or_else(|| now.after(self.settings.sweep)))
            }
            // The end of a machine is tried until it is done, and never rests.
            Due::Now(verb, _) if rests_until.is_some() && verb != Verb::Terminate => None,
            Due::Now(verb, reason) => return self.ask_by_time(id, verb, reason, now),
        };
        next.into_iter().chain(rests_until).chain(given_up).min()
    }

    /// When a machine of a pool is given up that does not answer. Whatever somebody may have used is not: to be out of reach is not
    /// to be dead.
    fn end_of_silence(&self, id: &MachineId) -> Option<Moment> {
        let entry = self.entries.get(id)?;
        let record = &entry.record;
        let unused = record.untouched && record.claimed.is_none() && record.unit.is_none();
        let Contact::Silent(since) = entry.load.contact() else {
            return None;
        };
        let spare = record.pool.is_some() && record.state() == State::Running;
        (spare && unused && !entry.load.has_worked()).then(|| since.after(self.settings.silence))
    }

    /// Its owner is told once, and reads it as long as it is so.
    fn say_whether_it_stays(&mut self, id: &MachineId, stays: bool, now: Moment) {
        let made = self.record(id).and_then(|record| record.made());
        let said = made.is_some_and(|made| made.trouble.as_deref() == Some(STAYS));
        if stays == said {
            return;
        }
        self.change(id, |record| {
            if let Phase::Made(made) = &mut record.phase {
                made.trouble = stays.then(|| STAYS.to_owned());
            }
        });
        if stays {
            self.tell(id, Happened::Stays, now);
        }
    }

    fn ask_by_time(
        &mut self,
        id: &MachineId,
        verb: Verb,
        reason: Reason,
        now: Moment,
    ) -> Option<Moment> {
        // Timers ask only for what is allowed; should that fail, it is asked again at the next sweep.
        let _ = self.ask(id, verb, reason, now);
        let called = self.entries.get(id).map(|entry| entry.doing) == Some(Doing::Calling);
        (!called).then(|| now.after(self.settings.sweep))
    }
}
