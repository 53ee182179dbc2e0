//! What is known about every machine, and what is to be done next. Pure: events and the time in, a [`Turn`] out.
//!
//! Each machine has at most one call under way. What to call follows from its record alone ([`Book::settle_machine`]), so a
//! restart goes on where the last run stopped:
//!
//! | phase | call | its answer |
//! |---|---|---|
//! | ordered | provision, with the token of the record | made; or again later; or cancelled, if it cannot be |
//! | cancelled | look for the mark | made, and to be terminated; or gone |
//! | made, a task to do | the verb, or destroy | the state it led to; then it is looked at |
//! | made | none; looked at with all others of its provider | its state |
//! | gone | none | |

mod answers;
mod former;
mod listing;
mod lost;
mod nodes;
mod pools;
mod quota;
mod strays;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_lifecycle::{Ended, Moment, Reason, RefusedVerb, Seen, State, Step, Verb, VerbSet};
use muster_provider::{
    ClientToken, Described, Home, MachineId, ManagerId, Order, Owned, ProviderId,
};

use crate::activity::{Contact, Load};
use crate::agenda::Agenda;
pub(crate) use crate::book::answers::CallFailure;
pub(crate) use crate::book::listing::{Listed, Standing};
pub use crate::book::pools::Pool;
pub(crate) use crate::book::pools::PoolChange;
use crate::book::pools::PoolState;
use crate::book::strays::Strays;
use crate::book::time::Rest;
use crate::error::{AskError, OrderError};
use crate::event::{Happened, MachineEvent};
use crate::record::{Lost, MachineOrder, Phase, Record};
use crate::settings::Settings;

/// A call to a provider.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Provision(MachineId, Box<Order>),
    /// Looks for the mark of a machine of which nobody knows whether it exists.
    Find(MachineId, ClientToken),
    Act(MachineId, Owned, Verb),
    Destroy(MachineId, Owned),
    /// Asks for a machine by name, and if it is not there, whether the one who has it answers.
    Describe(MachineId, Owned, Option<Home>),
    /// Something that bears our mark and that nobody needs.
    DestroyStray(Owned, Reason),
    List(Look),
}

/// A look at all machines of a provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// What changed later than this is newer than what the look shows.
    pub(crate) seen: u64,
    /// Whether the provider is also asked who answers.
    pub(crate) home: bool,
}

/// What is under way with a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The provider was asked and has not answered.
    Calling,
    /// It failed; ask again then.
    Waiting(Moment),
    /// It has taken the task on; what becomes of it will be seen.
    Taken,
}

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    load: Arc<Load>,
    doing: Doing,
    describing: bool,
    failures: u32,
    /// When it last changed, in changes of the book.
    touched: u64,
    kept_warm: bool,
    rest: Rest,
}

impl Entry {
    fn new(record: Record, now: Moment) -> Self {
        // Work that was seen before a restart is not known any more, so being idle begins now.
        let load = Load::new(now);
        if let Some(until) = record.busy_until {
            load.heartbeat(until);
        }
        Self {
            record: Arc::new(record),
            load: Arc::new(load),
            doing: Doing::Nothing,
            describing: false,
            failures: 0,
            touched: 0,
            kept_warm: false,
            rest: Rest::default(),
        }
    }

    fn is_silent(&self) -> bool {
        matches!(self.load.contact(), Contact::Silent(_))
    }

    /// On its way to another state, which is worth looking at soon.
    fn is_on_its_way(&self) -> bool {
        let Some(made) = self.record.made() else {
            return false;
        };
        let between = matches!(
            made.life.state(),
            State::Pending | State::Stopping(_) | State::ShuttingDown
        );
        between || self.doing == Doing::Taken
    }
}

/// Whether a machine is ready for whoever is given it: it runs, nothing is under way with it, and it has answered. One that nobody
/// can get into need not.
pub(crate) fn is_ready(record: &Record, load: &Load) -> bool {
    let Some(made) = record.made() else {
        return false;
    };
    let answered = made.access.is_empty() || load.contact() == Contact::Answers;
    answered && made.life.state() == State::Running && made.life.task().is_none()
}

/// What is known about one of the providers.
#[derive(Debug)]
struct Source {
    verbs: VerbSet,
    looking: bool,
    next_look: Moment,
    failures: u32,
    on_its_way: BTreeSet<MachineId>,
    /// When to ask again who answers, and whether that was told when it was asked last.
    next_home: Moment,
    tells_home: bool,
    strays: Strays,
}

/// What a step led to. Changes and events are made durable before anything else is done about them.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) changed: BTreeSet<MachineId>,
    /// Those of which something else is known that is not written down.
    pub(crate) seen: BTreeSet<MachineId>,
    pub(crate) forgotten: Vec<MachineId>,
    pub(crate) pools: Vec<PoolChange>,
    pub(crate) events: Vec<MachineEvent>,
    pub(crate) calls: Vec<(ProviderId, Call)>,
}

impl Turn {
    /// Whether there is anything to write down.
    pub(crate) fn has_changes(&self) -> bool {
        !(self.changed.is_empty()
            && self.forgotten.is_empty()
            && self.pools.is_empty()
            && self.events.is_empty())
    }
}

/// All machines.
#[derive(Debug)]
pub(crate) struct Book {
    manager: ManagerId,
    settings: Settings,
    entries: BTreeMap<MachineId, Entry>,
    keys: BTreeMap<String, MachineId>,
    sources: BTreeMap<ProviderId, Source>,
    pools: BTreeMap<String, PoolState>,
    agenda: Agenda,
    /// Machines whose timer ran out while there was work.
    held: BTreeSet<MachineId>,
    /// Pools that something happened to.
    unplanned: BTreeSet<String>,
    /// Counts changes.
    change: u64,
    next_event: u64,
    turn: Turn,
}

/// What a restart finds.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) records: Vec<Record>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) next_event: u64,
}

impl Book {
    /// Goes on from what was written down. Nothing has been called yet; the first [`tick`](Self::tick) does.
    pub(crate) fn recover(
        manager: ManagerId,
        settings: Settings,
        providers: &BTreeMap<ProviderId, VerbSet>,
        saved: Saved,
        now: Moment,
    ) -> Self {
        let source = |&verbs: &VerbSet| Source {
            verbs,
            looking: false,
            next_look: now,
            failures: 0,
            on_its_way: BTreeSet::new(),
            next_home: now,
            tells_home: false,
            strays: Strays::default(),
        };
        let mut book = Self {
            manager,
            settings,
            entries: BTreeMap::new(),
            keys: BTreeMap::new(),
            sources: providers
                .iter()
                .map(|(&id, verbs)| (id, source(verbs)))
                .collect(),
            pools: saved
                .pools
                .into_iter()
                .map(|(name, pool)| (name, PoolState::new(pool)))
                .collect(),
            agenda: Agenda::default(),
            held: BTreeSet::new(),
            unplanned: BTreeSet::new(),
            change: 0,
            next_event: saved.next_event,
            turn: Turn::default(),
        };
        for record in saved.records {
            if let Some(key) = &record.order.key {
                book.keys.insert(key.clone(), record.id.clone());
            }
            let id = record.id.clone();
            let mut entry = Entry::new(record, now);
            // The last run may have asked, and not heard the answer.
            entry.failures = 1;
            book.entries.insert(id.clone(), entry);
            book.agenda.set(&id, Some(now));
        }
        book.abandon_old_orders(now);
        book.unplanned = book.pools.keys().cloned().collect();
        book
    }

    /// Nobody waits for an order that is older than a crash should last.
    fn abandon_old_orders(&mut self, now: Moment) {
        let old: Vec<MachineId> = self
            .entries
            .values()
            .map(|entry| &entry.record)
            .filter(|record| {
                record.phase == Phase::Ordered
                    && record.ordered.after(self.settings.carry_on) <= now
            })
            .map(|record| record.id.clone())
            .collect();
        for id in old {
            self.cancel(&id, Reason::Abandoned, None, now);
        }
    }

    /// What has come together since the last time, and what pools make of it.
    pub(crate) fn take_turn(&mut self, now: Moment) -> Turn {
        self.plan_pools(now);
        std::mem::take(&mut self.turn)
    }

    /// When to [`tick`](Self::tick) next.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let looks = self.sources.values().filter(|source| !source.looking);
        let looks = looks.map(|source| source.next_look);
        let pools = self.pools.values().filter_map(PoolState::retry_at);
        looks.chain(self.agenda.next()).chain(pools).min()
    }

    pub(crate) fn record(&self, id: &MachineId) -> Option<&Arc<Record>> {
        self.entries.get(id).map(|entry| &entry.record)
    }

    pub(crate) fn load(&self, id: &MachineId) -> Option<&Arc<Load>> {
        self.entries.get(id).map(|entry| &entry.load)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &MachineId> {
        self.entries.keys()
    }

    /// Takes an order. The key of an order that was taken before gives the machine of that time.
    pub(crate) fn order(
        &mut self,
        order: MachineOrder,
        pool: Option<String>,
        now: Moment,
    ) -> Result<MachineId, OrderError> {
        if let Some(key) = &order.key
            && let Some(machine) = self.keys.get(key)
        {
            let same = self.entries[machine].record.order == order;
            return same
                .then(|| machine.clone())
                .ok_or_else(|| OrderError::KeyUsed {
                    key: key.clone(),
                    machine: machine.clone(),
                });
        }
        if !self.sources.contains_key(&order.provider) {
            return Err(OrderError::NoProvider(order.provider));
        }
        if self.entries.len() >= self.settings.machines {
            return Err(OrderError::TooMany(self.entries.len()));
        }
        self.keep_quota(&order)?;
        let id = MachineId::random();
        if let Some(key) = &order.key {
            self.keys.insert(key.clone(), id.clone());
        }
        let record = Record {
            id: id.clone(),
            token: ClientToken::random(),
            order,
            ordered: now,
            pool,
            claimed: None,
            unit: None,
            busy_until: None,
            untouched: true,
            phase: Phase::Ordered,
        };
        self.entries.insert(id.clone(), Entry::new(record, now));
        self.tell(&id, Happened::Ordered, now);
        self.settle_machine(&id, now);
        Ok(id)
    }

    /// Asks something of a machine.
    pub(crate) fn ask(
        &mut self,
        id: &MachineId,
        verb: Verb,
        reason: Reason,
        now: Moment,
    ) -> Result<Step, AskError> {
        let Some(entry) = self.entries.get_mut(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        let provider = entry.record.order.provider;
        let Some(source) = self.sources.get(&provider) else {
            let machine = id.clone();
            return match entry.record.decide(verb, VerbSet::ALL) {
                Ok(Step::Act(_)) => Err(AskError::NoProvider {
                    machine,
                    provider,
                    why: self.settings.unusable.get(&provider).cloned(),
                }),
                // What has no effect, or makes no sense, needs no provider.
                Ok(Step::Already) => Ok(Step::Already),
                Err(source) => Err(AskError::Refused { machine, source }),
            };
        };
        let of_provider = source.verbs;
        let refused = |source: RefusedVerb| AskError::Refused {
            machine: id.clone(),
            source: source.of_machine(of_provider),
        };
        let Phase::Made(made) = &entry.record.phase else {
            let step = entry.record.decide(verb, of_provider).map_err(refused)?;
            if step == Step::Act(Verb::Terminate) {
                self.cancel(id, reason, None, now);
                self.settle_machine(id, now);
            }
            return Ok(step);
        };
        let mut life = made.life;
        let verbs = of_provider.and(made.verbs);
        let step = life.begin(verb, verbs, reason, now).map_err(refused)?;
        let Step::Act(act) = step else {
            return Ok(step);
        };
        self.change(id, |record| {
            if let Phase::Made(made) = &mut record.phase {
                made.life = life;
                made.trouble = None;
            }
        });
        if let Some(entry) = self.entries.get_mut(id) {
            entry.failures = 0;
            if reason == Reason::Asked {
                entry.rest = Rest::default();
            }
            // An answer that is still to come belongs to what was asked before.
            if entry.doing != Doing::Calling {
                entry.doing = Doing::Nothing;
            }
        }
        self.tell(id, Happened::Asked { verb: act, reason }, now);
        self.settle_machine(id, now);
        Ok(step)
    }

    /// Somebody tried to reach a machine that runs.
    pub(crate) fn set_reachable(&mut self, id: &MachineId, reachable: bool, now: Moment) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let contact = match (reachable, entry.load.contact()) {
            (true, _) => Contact::Answers,
            (false, silent @ Contact::Silent(_)) => silent,
            (false, _) => Contact::Silent(now),
        };
        // What does not run is not silent: it is tried again when it does.
        if entry.record.state() != State::Running || contact == entry.load.contact() {
            return;
        }
        if entry.is_silent() {
            // Whether it had work meanwhile nobody saw.
            entry.load.touch(now);
        }
        self.set_contact(id, contact);
        self.settle_machine(id, now);
    }

    fn set_contact(&mut self, id: &MachineId, contact: Contact) {
        if let Some(entry) = self.entries.get(id) {
            entry.load.set_contact(contact);
            self.turn.seen.insert(id.clone());
        }
    }

    /// Somebody says that a machine is in use until then. What was said before is never shortened.
    pub(crate) fn keep_busy(
        &mut self,
        id: &MachineId,
        until: Moment,
        now: Moment,
    ) -> Result<(), AskError> {
        let Some(entry) = self.entries.get(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        entry.load.heartbeat(until);
        self.change(id, |record| {
            record.busy_until = record.busy_until.max(Some(until));
            record.untouched = false;
        });
        self.settle_machine(id, now);
        Ok(())
    }

    /// Work has begun or ended somewhere.
    pub(crate) fn work_changed(&mut self, now: Moment) {
        for id in std::mem::take(&mut self.held) {
            self.settle_machine(&id, now);
        }
        let worked = self.entries.iter().filter(|(_, entry)| {
            entry.record.pool.is_some() && entry.record.untouched && entry.load.has_worked()
        });
        let worked: Vec<MachineId> = worked.map(|(id, _)| id.clone()).collect();
        for id in worked {
            self.change(&id, |record| record.untouched = false);
        }
    }

    /// Looks at all machines soon, whether or not it is time.
    pub(crate) fn look_now(&mut self, now: Moment) {
        for source in self.sources.values_mut() {
            source.next_look = source.next_look.min(now);
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Moment) {
        for id in self.agenda.take_due(now) {
            self.forget_if_old(&id, now);
            self.settle_machine(&id, now);
        }
        self.look_if_due(now);
        self.retry_pools(now);
    }

    /// What has been gone for long is not remembered.
    fn forget_if_old(&mut self, id: &MachineId, now: Moment) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let Phase::Gone { since, .. } = entry.record.phase else {
            return;
        };
        if since.after(self.settings.remember) > now || entry.record.unit.is_some() {
            return;
        }
        if let Some(key) = &entry.record.order.key {
            self.keys.remove(key);
        }
        self.entries.remove(id);
        self.turn.changed.remove(id);
        self.turn.forgotten.push(id.clone());
    }

    /// Changes a record, if there is one.
    fn change(&mut self, id: &MachineId, change: impl FnOnce(&mut Record)) {
        self.change += 1;
        if let Some(entry) = self.entries.get_mut(id) {
            change(Arc::make_mut(&mut entry.record));
            entry.touched = self.change;
            self.turn.changed.insert(id.clone());
        }
    }

    fn tell(&mut self, machine: &MachineId, what: Happened, now: Moment) {
        self.turn.changed.insert(machine.clone());
        self.turn.events.push(MachineEvent {
            number: self.next_event,
            at: now,
            machine: machine.clone(),
            what,
        });
        self.next_event += 1;
    }

    /// A machine that may or may not exist is not wanted any more.
    fn cancel(&mut self, id: &MachineId, reason: Reason, failure: Option<String>, now: Moment) {
        self.change(id, |record| {
            record.phase = Phase::Cancelled {
                since: now,
                reason,
                failure,
            };
        });
        self.tell(id, Happened::Cancelled { reason }, now);
    }

    /// A machine does not exist any more, or was never made.
    fn end(&mut self, id: &MachineId, reason: Reason, failure: Option<String>, now: Moment) {
        self.change(id, |record| {
            let lost = record.made().filter(|_| reason == Reason::Outside);
            record.phase = Phase::Gone {
                since: now,
                reason,
                failure,
                lost: lost.map(Lost::from),
            };
        });
        if let Some(entry) = self.entries.get_mut(id) {
            entry.doing = Doing::Nothing;
        }
        if reason == Reason::NotMade {
            self.pool_failed(id, now);
        }
        self.tell(id, Happened::Gone { reason }, now);
        self.tell_of_node_that_stays(id, now);
    }

    /// Takes over what a provider says about a machine that exists.
    fn observe(&mut self, id: &MachineId, described: &Described, now: Moment) {
        let Some(made) = self.record(id).and_then(|record| record.made()) else {
            return;
        };
        let mut next = made.clone();
        next.address = described.address;
        next.verbs = described.verbs;
        next.access.clone_from(&described.access);
        next.details.clone_from(&described.details);
        let task = made.life.task().copied();
        // What cannot be is an older view of a machine that has gone on.
        let Ok(seen) = next.life.observe(described.state, now) else {
            return;
        };
        lost::is_seen(&mut next);
        let changed = next != *made;
        if changed {
            self.change(id, |record| record.phase = Phase::Made(next));
        }
        if let Seen::Moved { from, ended } = seen {
            let to = described.state;
            if from != to {
                self.tell(id, Happened::Moved { from, to }, now);
                if to == State::Running {
                    // Nobody has tried to reach it since it runs again.
                    self.set_contact(id, Contact::Untried);
                }
            }
            match ended {
                Some(Ended::Reached(verb)) => {
                    self.wake_up(id);
                    self.tell(id, Happened::Done { verb }, now);
                }
                Some(Ended::Otherwise(verb)) => self.tell(id, Happened::NotDone { verb }, now),
                None => {}
            }
            if ended.is_some()
                && let Some(entry) = self.entries.get_mut(id)
                && entry.doing != Doing::Calling
            {
                entry.doing = Doing::Nothing;
            }
            if to == State::Terminated {
                let reason = task.filter(|task| task.verb == Verb::Terminate);
                let reason = reason.map(|task| task.reason).or(described.reason);
                self.end(id, reason.unwrap_or(Reason::Outside), None, now);
            }
        }
    }

    /// Calls what the record asks for, and sets the next moment to look at the machine.
    fn settle_machine(&mut self, id: &MachineId, now: Moment) {
        self.held.remove(id);
        let Some(entry) = self.entries.get(id) else {
            self.agenda.set(id, None);
            return;
        };
        let provider = entry.record.order.provider;
        let on_its_way = entry.is_on_its_way();
        let waits = match entry.doing {
            Doing::Waiting(until) if until > now => Some(until),
            _ => None,
        };
        let next = match waits {
            Some(until) => Some(until),
            None => self.call_or_wait(id, now),
        };
        self.agenda.set(id, next);
        if let Some(source) = self.sources.get_mut(&provider) {
            let changed = match on_its_way {
                true => source.on_its_way.insert(id.clone()),
                false => source.on_its_way.remove(id),
            };
            if changed && on_its_way {
                source.next_look = source.next_look.min(now.after(self.settings.poll));
            }
        }
        self.mark_pool_of(id);
    }

    /// Makes the call that the record asks for, if none is under way; else tells when to look again.
    fn call_or_wait(&mut self, id: &MachineId, now: Moment) -> Option<Moment> {
        let entry = self.entries.get(id)?;
        let record = &entry.record;
        let provider = record.order.provider;
        if entry.doing == Doing::Calling {
            return None;
        }
        let call = match &record.phase {
            Phase::Ordered => {
                let order = record.provider_order(&self.manager);
                Some(Call::Provision(id.clone(), Box::new(order)))
            }
            Phase::Cancelled { .. } => Some(Call::Find(id.clone(), record.token.clone())),
            // A node that its Unit still knows is remembered until somebody has taken it out.
            Phase::Gone { .. } if record.unit.is_some() => return None,
            Phase::Gone { since, .. } => return Some(since.after(self.settings.remember)),
            Phase::Made(made) => match made.life.task() {
                Some(task) if entry.doing != Doing::Taken => {
                    let owned = Owned {
                        resource: made.resource.clone(),
                        mark: record.mark(&self.manager),
                    };
                    Some(match task.verb {
                        Verb::Terminate => Call::Destroy(id.clone(), owned),
                        verb => Call::Act(id.clone(), owned, verb),
                    })
                }
                _ => None,
            },
        };
        // A provider that is configured no more keeps what it has: it may come back.
        let known = self.sources.contains_key(&provider);
        match call {
            Some(call) if known => {
                self.turn.calls.push((provider, call));
                self.entries.get_mut(id)?.doing = Doing::Calling;
                None
            }
            Some(_) => None,
            None => self.watch_time(id, now),
        }
    }
}
