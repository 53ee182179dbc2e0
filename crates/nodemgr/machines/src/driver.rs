//! The one task: owns the book, writes down what it decides, then does it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{Moment, Reason, State, Step, Verb};
use muster_provider::{Clock, MachineId, ManagerId, Provider, ProviderId};
use muster_seed::ManagerKeys;
use muster_store::Store;
use muster_telemetry::ErrorChain;
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::book::{Book, Call, Listed, Pool, Standing, Turn};
use crate::calls::{Answered, call};
use crate::collect::{self, Orphan, Orphans, Survey, survey};
use crate::database::{self, Changes};
use crate::error::{AskError, ClaimError, CollectError, OrderError};
use crate::event::MachineEvent;
use crate::fault::{DECIDED, hit_written};
use crate::handle::{Machine, Snapshot};
use crate::record::MachineOrder;
use crate::settings::Settings;

/// How long a write that failed is waited with: the disk may have space again.
const WRITE_RETRY: Duration = Duration::from_secs(5);
/// How much is taken in before it is written down together.
const BATCH: usize = 256;
/// A day: nothing is due.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// What the registry is put together from.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The database, opened with [`SCHEMA`](crate::SCHEMA).
    pub store: Store,
    /// Who this manager is. It must stay the same when the database is lost, or its machines cannot be found again.
    pub manager: ManagerId,
    /// Who makes machines.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The keys that machines are born with. Without them, orders carry none.
    pub keys: Option<Arc<ManagerKeys>>,
}

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Command {
    Order(Box<MachineOrder>, Reply<Result<MachineId, OrderError>>),
    Ask(MachineId, Verb, Reply<Result<Step, AskError>>),
    Claim(String, String, Reply<Result<MachineId, ClaimError>>),
    Release(MachineId, Reply<Result<(), AskError>>),
    SetUnit(MachineId, Option<String>, Reply<Result<(), AskError>>),
    SetPool(String, Box<Pool>, Reply<()>),
    RemovePool(String, Reply<bool>),
    Pools(Reply<BTreeMap<String, Pool>>),
    Reachable(MachineId, bool),
    KeepBusy(MachineId, Moment, Reply<Result<(), AskError>>),
    /// Look at everything; `true` also destroys what nobody knows.
    Collect(bool, Reply<Result<Orphans, CollectError>>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

/// What a finished job says.
enum Done {
    Call(ProviderId, Answered),
    Survey(Survey, bool, Reply<Result<Orphans, CollectError>>),
}

/// Told after everything is on disk.
type Told = Box<dyn FnOnce() + Send>;

fn answer<T: Send + 'static>(reply: Reply<T>, value: T) -> Told {
    Box::new(move || {
        let _ = reply.send(value);
    })
}

/// Whether a verb lets a system finish what it does, or writes its memory, for which whoever wants its end now does not wait.
const fn takes_its_time(verb: Verb) -> bool {
    matches!(verb, Verb::Stop | Verb::Reboot | Verb::Hibernate)
}

pub(crate) struct Driver {
    store: Store,
    manager: ManagerId,
    providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
    clock: Arc<dyn Clock>,
    keys: Option<Arc<ManagerKeys>>,
    settings: Settings,
    book: Book,
    jobs: JoinSet<Done>,
    running: BTreeMap<ProviderId, usize>,
    waiting: BTreeMap<ProviderId, VecDeque<Call>>,
    /// Stops, reboots and hibernations under way, which may take long. One that is taken from here is not waited for.
    graceful: BTreeMap<MachineId, oneshot::Sender<()>>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    events: broadcast::Sender<MachineEvent>,
    work_changed: Arc<Notify>,
}

impl Driver {
    pub(crate) fn new(
        parts: Parts,
        settings: Settings,
        book: Book,
        snapshot: watch::Sender<Arc<Snapshot>>,
        events: broadcast::Sender<MachineEvent>,
        work_changed: Arc<Notify>,
    ) -> Self {
        let providers = parts.providers.into_iter();
        Self {
            store: parts.store,
            manager: parts.manager,
            providers: providers.map(|it| (it.profile().id, it)).collect(),
            clock: parts.clock,
            keys: parts.keys,
            settings,
            book,
            jobs: JoinSet::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            graceful: BTreeMap::new(),
            snapshot,
            events,
            work_changed,
        }
    }

    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let changed = Arc::clone(&self.work_changed);
        let mut told = Vec::new();
        loop {
            self.book.tick(self.clock.now());
            self.carry_out(std::mem::take(&mut told)).await;
            let wake = self.wake();
            tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.take(command, &mut told),
                    None => break,
                },
                Some(done) = self.jobs.join_next() => self.finish(done, &mut told),
                () = changed.notified() => self.book.work_changed(self.clock.now()),
                () = tokio::time::sleep(wake) => {}
            }
            self.take_more(&mut inbox, &mut told);
        }
    }

    /// What has come meanwhile shares the next write.
    fn take_more(&mut self, inbox: &mut mpsc::Receiver<Command>, told: &mut Vec<Told>) {
        for _ in 0..BATCH {
            if let Some(done) = self.jobs.try_join_next() {
                self.finish(done, told);
            } else if let Ok(command) = inbox.try_recv() {
                self.take(command, told);
            } else {
                break;
            }
        }
    }

    fn wake(&self) -> Duration {
        let now = self.clock.now();
        let deadline = self.book.deadline();
        deadline.map_or(FAR, |at| at.since(now).min(FAR))
    }

    fn take(&mut self, command: Command, told: &mut Vec<Told>) {
        let now = self.clock.now();
        // Whoever asked may have gone; what was accepted stays accepted.
        match command {
            Command::Order(order, reply) => {
                let ordered = self.book.order(*order, None, now);
                told.push(answer(reply, ordered));
            }
            Command::Ask(id, verb, reply) => {
                let asked = self.book.ask(&id, verb, Reason::Asked, now);
                told.push(answer(reply, asked));
            }
            Command::Claim(pool, by, reply) => {
                let claimed = self.book.claim(&pool, &by, now);
                told.push(answer(reply, claimed));
            }
            Command::Release(id, reply) => {
                let released = self.book.release(&id, now);
                told.push(answer(reply, released));
            }
            Command::SetUnit(id, unit, reply) => {
                let set = self.book.set_unit(&id, unit, now);
                told.push(answer(reply, set));
            }
            Command::SetPool(name, pool, reply) => {
                self.book.set_pool(name, *pool);
                told.push(answer(reply, ()));
            }
            Command::RemovePool(name, reply) => {
                let removed = self.book.remove_pool(&name, now);
                told.push(answer(reply, removed));
            }
            Command::Pools(reply) => {
                let pools = self.book.pools();
                let pools = pools.map(|(name, pool)| (name.clone(), pool.clone()));
                drop(reply.send(pools.collect()));
            }
            Command::Reachable(id, reachable) => self.book.set_reachable(&id, reachable, now),
            Command::KeepBusy(id, until, reply) => {
                let kept = self.book.keep_busy(&id, until, now);
                told.push(answer(reply, kept));
            }
            Command::Collect(destroy, reply) => {
                let look = self.book.look();
                let providers: Vec<_> = self.providers.values().cloned().collect();
                let manager = self.manager.clone();
                let longest = self.settings.call;
                self.jobs.spawn(async move {
                    let found = survey(providers, manager, look, longest).await;
                    Done::Survey(found, destroy, reply)
                });
            }
        }
    }

    fn finish(&mut self, done: Result<Done, tokio::task::JoinError>, told: &mut Vec<Told>) {
        let done = match done {
            Ok(done) => done,
            // Its end will never be told: better to begin anew than to wait for it for ever.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let now = self.clock.now();
        match done {
            Done::Call(provider, answered) => {
                if let Some(running) = self.running.get_mut(&provider) {
                    *running = running.saturating_sub(1);
                }
                if let Answered::Acted(id, verb, _) = &answered
                    && takes_its_time(*verb)
                {
                    self.graceful.remove(id);
                }
                self.call_next(provider);
                answered.apply(&mut self.book, now);
            }
            Done::Survey(survey, destroy, reply) => self.conclude(survey, destroy, reply, told),
        }
    }

    /// Takes over what a survey shows, and destroys orphans if it was asked to.
    fn conclude(
        &mut self,
        survey: Survey,
        destroy: bool,
        reply: Reply<Result<Orphans, CollectError>>,
        told: &mut Vec<Told>,
    ) {
        let now = self.clock.now();
        let mut orphans = Vec::new();
        for (provider, listed) in survey.listed {
            // One that is on its way out may have got stuck there.
            for described in &listed {
                if let Standing::Stray(reason) = self.book.standing(provider, described)
                    && described.mark.manager == self.manager
                    && described.state != State::Terminated
                {
                    orphans.push(Orphan {
                        provider,
                        resource: described.resource.clone(),
                        mark: described.mark.clone(),
                        state: described.state,
                        reason,
                    });
                }
            }
            let listed = Listed {
                home: None,
                machines: listed,
            };
            self.book.listed(provider, survey.look, Ok(listed), now);
        }
        let failures = survey.failures;
        if !destroy || orphans.is_empty() {
            told.push(answer(reply, Ok(Orphans { orphans, failures })));
            return;
        }
        let with_provider = orphans.into_iter().filter_map(|orphan| {
            let provider = self.providers.get(&orphan.provider)?;
            Some((Arc::clone(provider), orphan))
        });
        let with_provider = with_provider.collect();
        let longest = self.settings.call;
        // The registry goes on meanwhile; a manager that ends leaves them to the next collection.
        tokio::spawn(async move {
            let result = collect::destroy(with_provider, failures, longest).await;
            drop(reply.send(Ok(result)));
        });
    }

    fn call_next(&mut self, provider: ProviderId) {
        let Some(service) = self.providers.get(&provider) else {
            return;
        };
        let running = self.running.entry(provider).or_default();
        let waiting = self.waiting.entry(provider).or_default();
        while *running < self.settings.calls.max(1) {
            let Some(mut next) = waiting.pop_front() else {
                break;
            };
            if let (Call::Provision(_, order), Some(keys)) = (&mut next, &self.keys) {
                order.ssh = Some(keys.seed(&order.mark.token, &order.spec));
            }
            *running += 1;
            let longest = self.settings.longest(&next);
            let unwanted = match &next {
                Call::Act(id, _, verb) if takes_its_time(*verb) => {
                    let (wanted, unwanted) = oneshot::channel();
                    self.graceful.insert(id.clone(), wanted);
                    Some(unwanted)
                }
                _ => None,
            };
            let manager = self.manager.clone();
            let call = call(Arc::clone(service), manager, next, longest, unwanted);
            self.jobs
                .spawn(async move { Done::Call(provider, call.await) });
        }
    }

    /// Writes down what was decided, tells, then calls.
    async fn carry_out(&mut self, told: Vec<Told>) {
        let turn = self.book.take_turn(self.clock.now());
        if turn.has_changes() {
            muster_fault::hit(DECIDED);
            self.write(&turn).await;
            hit_written(&turn);
        }
        if turn.has_changes() || !turn.seen.is_empty() {
            self.publish(&turn);
        }
        for tell in told {
            tell();
        }
        for (provider, call) in turn.calls {
            self.waiting.entry(provider).or_default().push_back(call);
            self.call_next(provider);
        }
        // Whoever wants a machine to end now does not wait until it had its grace.
        let book = &self.book;
        self.graceful.retain(|id, _| {
            let task = book.task_of(id);
            !matches!(task, Some(Verb::ForceStop | Verb::Terminate))
        });
    }

    /// Nothing is done or told before it is on disk, however long that takes.
    async fn write(&self, turn: &Turn) {
        let book = &self.book;
        let changes = Changes::new(turn, |id| book.record(id), self.settings.events);
        let changes = Arc::new(changes);
        while let Err(error) = database::save(&self.store, &changes).await {
            tracing::error!(error = %ErrorChain(&error), "machines cannot be written down; trying again");
            tokio::time::sleep(WRITE_RETRY).await;
        }
    }

    fn publish(&self, turn: &Turn) {
        self.snapshot.send_modify(|current| {
            let next = Arc::make_mut(current);
            for id in &turn.forgotten {
                next.remove(id);
            }
            for id in turn.changed.union(&turn.seen) {
                if let (Some(record), Some(load)) = (self.book.record(id), self.book.load(id)) {
                    let machine = Machine::new(Arc::clone(record), Arc::clone(load));
                    next.insert(id.clone(), machine);
                }
            }
        });
        for event in &turn.events {
            // Nobody may be listening.
            let _ = self.events.send(event.clone());
        }
    }
}
