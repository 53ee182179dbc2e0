//! What others hold of the registry.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{State, Step, Verb, VerbSet};
use muster_provider::{Clock, MachineId, ProviderId};
use muster_store::{Store, StoreError};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};

use crate::activity::{Busy, Contact, Load, WorkKind};
use crate::book::{Book, Pool, is_ready};
use crate::collect::Orphans;
use crate::database;
use crate::driver::{Command, Driver, Parts};
use crate::error::{
    AskError, ClaimError, CollectError, OrderError, ProvisionError, StartMachinesError,
};
use crate::event::MachineEvent;
use crate::record::{MachineOrder, Record};
use crate::settings::Settings;

/// How many commands wait.
const COMMANDS: usize = 64;
/// How many events a listener may be behind; further behind, he reads them from the database.
const EVENTS: usize = 256;

/// A machine as it was last written down.
#[derive(Debug, Clone)]
pub struct Machine {
    record: Arc<Record>,
    load: Arc<Load>,
}

impl Machine {
    pub(crate) const fn new(record: Arc<Record>, load: Arc<Load>) -> Self {
        Self { record, load }
    }

    /// What is known about it.
    #[must_use]
    pub fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// The work on it, as it is now.
    #[must_use]
    pub fn work(&self) -> muster_lifecycle::timers::Work {
        self.load.work()
    }

    /// Whether it answers, as far as anybody has tried since it runs.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.load.contact()
    }

    /// Whether whoever is given it can begin: it runs, and has answered. One that nobody can get into need not.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        is_ready(&self.record, &self.load)
    }
}

/// Every machine that is known, those that are gone and remembered among them.
pub type Snapshot = BTreeMap<MachineId, Machine>;

/// The handle. The task ends when every handle is gone; machines stay as they are.
#[derive(Debug, Clone)]
pub struct Machines {
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    events: broadcast::WeakSender<MachineEvent>,
    store: Store,
    clock: Arc<dyn Clock>,
    work_changed: Arc<Notify>,
}

impl Machines {
    /// Reads what there is and goes on from there: half-made machines are adopted or destroyed. The future is the task.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn start(
        parts: Parts,
        settings: Settings,
    ) -> Result<(Self, impl Future<Output = ()> + Send), StartMachinesError> {
        let saved = database::load(&parts.store).await?;
        let now = parts.clock.now();
        let profiles = parts.providers.iter().map(|it| it.profile());
        let verbs: BTreeMap<ProviderId, VerbSet> = profiles
            .map(|profile| (profile.id, profile.verbs))
            .collect();
        let book = Book::recover(parts.manager.clone(), settings.clone(), &verbs, saved, now);
        let first = book.ids().filter_map(|id| {
            let machine = Machine::new(book.record(id)?.clone(), book.load(id)?.clone());
            Some((id.clone(), machine))
        });
        let (publisher, snapshot) = watch::channel(Arc::new(first.collect()));
        let (sender, _) = broadcast::channel(EVENTS);
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let work_changed = Arc::new(Notify::new());
        let handle = Self {
            commands,
            snapshot,
            events: sender.downgrade(),
            store: parts.store.clone(),
            clock: Arc::clone(&parts.clock),
            work_changed: Arc::clone(&work_changed),
        };
        let driver = Driver::new(parts, settings, book, publisher, sender, work_changed);
        Ok((handle, driver.run(inbox)))
    }

    async fn request<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Orders a machine. Answers when the order is durable: from then on the machine is made, whatever crashes.
    ///
    /// # Errors
    /// When the order is not taken.
    pub async fn order(&self, order: MachineOrder) -> Result<MachineId, OrderError> {
        let answer = self.request(|reply| Command::Order(Box::new(order), reply));
        answer.await.unwrap_or(Err(OrderError::Ended))
    }

    /// Orders a machine and waits until it runs.
    ///
    /// # Errors
    /// When the order is not taken, or the machine does not come to run.
    pub async fn provision(&self, order: MachineOrder) -> Result<Arc<Record>, ProvisionError> {
        let id = self.order(order).await.map_err(ProvisionError::Order)?;
        let record = self
            .wait_until(&id, |state| state == State::Running || state.is_ending())
            .await
            .map_err(|_| ProvisionError::Order(OrderError::Ended))?;
        match record.state() {
            State::Running => Ok(record),
            _ => Err(ProvisionError::Gone {
                machine: id,
                reason: record.end().unwrap_or(muster_lifecycle::Reason::Asked),
                failure: record.failure().map(ToOwned::to_owned),
            }),
        }
    }

    /// Asks something of a machine. Answers when that is durable; whether it has come about, its state tells.
    ///
    /// # Errors
    /// When it is not allowed, or not possible. Nothing has happened then.
    pub async fn ask(&self, id: &MachineId, verb: Verb) -> Result<Step, AskError> {
        let answer = self.request(|reply| Command::Ask(id.clone(), verb, reply));
        answer.await.unwrap_or(Err(AskError::Ended))
    }

    /// Destroys a machine. It is tried until it is done.
    ///
    /// # Errors
    /// When there is no such machine.
    pub async fn destroy(&self, id: &MachineId) -> Result<Step, AskError> {
        self.ask(id, Verb::Terminate).await
    }

    /// A machine is a node of this Unit from now on, or of none. A node is not put away for being idle or stopped, nor given to
    /// anybody else; when its machine ends, the record stays until it is said here that the Unit does not know it any more.
    ///
    /// # Errors
    /// When there is no such machine, or it ends.
    pub async fn set_unit(&self, id: &MachineId, unit: Option<String>) -> Result<(), AskError> {
        let answer = self.request(|reply| Command::SetUnit(id.clone(), unit, reply));
        answer.await.unwrap_or(Err(AskError::Ended))
    }

    /// Waits until a machine that was to run does, or will not.
    ///
    /// # Errors
    /// When there is no such machine (any more), or the registry has ended.
    pub async fn wait_until_up(&self, id: &MachineId) -> Result<Arc<Record>, AskError> {
        self.wait_for(id, Record::has_come_up_or_not).await
    }

    /// Waits until a machine is in a wanted state.
    ///
    /// # Errors
    /// When there is no such machine (any more), or the registry has ended.
    pub async fn wait_until(
        &self,
        id: &MachineId,
        wanted: impl Fn(State) -> bool,
    ) -> Result<Arc<Record>, AskError> {
        self.wait_for(id, |record| wanted(record.state())).await
    }

    async fn wait_for(
        &self,
        id: &MachineId,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<Arc<Record>, AskError> {
        let mut snapshot = self.snapshot.clone();
        let reached = snapshot.wait_for(|all| {
            let machine = all.get(id);
            machine.is_none_or(|machine| wanted(&machine.record))
        });
        let all = reached.await.map_err(|_| AskError::Ended)?;
        let machine = all.get(id).map(|machine| Arc::clone(&machine.record));
        machine.ok_or_else(|| AskError::Unknown(id.clone()))
    }

    /// Every machine, as it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Every machine, as it is now.
    #[must_use]
    pub fn all(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// One machine, as it is now.
    #[must_use]
    pub fn get(&self, id: &MachineId) -> Option<Machine> {
        self.snapshot.borrow().get(id).cloned()
    }

    /// Work begins on a machine, and lasts until what this returns is dropped. It is not put away meanwhile.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn begin_work(&self, id: &MachineId, kind: WorkKind) -> Result<Busy, AskError> {
        let Some(machine) = self.get(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        let clock = Arc::clone(&self.clock);
        let ended = Arc::clone(&self.work_changed);
        Ok(Busy::begin(machine.load, kind, clock, ended))
    }

    /// A machine is in use for this long from now on, says somebody who cannot hold a [`Busy`]. Answers when that is durable.
    ///
    /// # Errors
    /// When there is no such machine.
    pub async fn heartbeat(&self, id: &MachineId, time: Duration) -> Result<(), AskError> {
        let until = self.clock.now().after(time);
        let answer = self.request(|reply| Command::KeepBusy(id.clone(), until, reply));
        answer.await.unwrap_or(Err(AskError::Ended))
    }

    /// A machine that is free is somebody's for this long, from this moment on: nobody else is given it, and it is not put away. For
    /// whoever is about to [begin](Self::begin_work); a restart of the manager forgets it, as it forgets what was about to begin.
    ///
    /// # Errors
    /// When there is no such machine, or it is not free: what somebody saw a moment ago need not be so any more.
    pub fn reserve(&self, id: &MachineId, time: Duration) -> Result<(), AskError> {
        let Some(machine) = self.get(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        let taken = |why| AskError::Taken(id.clone(), why);
        let record = machine.record();
        let task = record.made().and_then(|made| made.life.task());
        if record.state().is_ending() || task.is_some_and(|task| task.verb == Verb::Terminate) {
            return Err(taken("it is gone or goes"));
        }
        if record.is_leaving() {
            return Err(taken("it is being stopped or hibernated"));
        }
        if record.unit.is_some() {
            return Err(taken("it is a node of a Unit"));
        }
        if record.pool.is_some() {
            return Err(taken("it belongs to a pool"));
        }
        let now = self.clock.now();
        if !machine.load.reserve(now.after(time), now) {
            return Err(taken("it is in use"));
        }
        self.work_changed.notify_one();
        Ok(())
    }

    /// A machine that was [reserved](Self::reserve) stays so for this long.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn keep_reserved(&self, id: &MachineId, time: Duration) -> Result<(), AskError> {
        let Some(machine) = self.get(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        machine.load.heartbeat(self.clock.now().after(time));
        self.work_changed.notify_one();
        Ok(())
    }

    /// Somebody tried to reach a machine that runs. One that does not answer is not stopped for being idle, is given to nobody, and
    /// its pool replaces it; that lasts until it is told here that it answers, or it comes to run anew. A machine of a pool is given
    /// to nobody before it has answered.
    pub async fn set_reachable(&self, id: &MachineId, reachable: bool) {
        // Without the task there is nobody whom it would concern.
        let command = Command::Reachable(id.clone(), reachable);
        let _ = self.commands.send(command).await;
    }

    /// Makes or changes a warm pool. Answers when that is durable.
    ///
    /// # Errors
    /// When the registry has ended.
    pub async fn set_pool(&self, name: &str, pool: Pool) -> Result<(), ClaimError> {
        let answer = self.request(|reply| Command::SetPool(name.to_owned(), Box::new(pool), reply));
        answer.await.ok_or(ClaimError::Ended)
    }

    /// Gives a pool up. Its machines stay, and their timers run again.
    ///
    /// # Errors
    /// When there is no such pool.
    pub async fn remove_pool(&self, name: &str) -> Result<(), ClaimError> {
        let answer = self.request(|reply| Command::RemovePool(name.to_owned(), reply));
        match answer.await {
            Some(true) => Ok(()),
            Some(false) => Err(ClaimError::Unknown(name.to_owned())),
            None => Err(ClaimError::Ended),
        }
    }

    /// The pools there are.
    ///
    /// # Errors
    /// When the registry has ended.
    pub async fn pools(&self) -> Result<BTreeMap<String, Pool>, ClaimError> {
        let answer = self.request(Command::Pools);
        answer.await.ok_or(ClaimError::Ended)
    }

    /// Takes a machine that is ready out of a pool, for somebody. Answers when that is durable.
    ///
    /// # Errors
    /// When there is no such pool, or none is ready.
    pub async fn claim(&self, pool: &str, by: &str) -> Result<MachineId, ClaimError> {
        let answer = self.request(|reply| Command::Claim(pool.to_owned(), by.to_owned(), reply));
        answer.await.unwrap_or(Err(ClaimError::Ended))
    }

    /// Gives a machine back to its pool.
    ///
    /// # Errors
    /// When there is no such machine, or it belongs to no pool.
    pub async fn release(&self, id: &MachineId) -> Result<(), AskError> {
        let answer = self.request(|reply| Command::Release(id.clone(), reply));
        answer.await.unwrap_or(Err(AskError::Ended))
    }

    /// Looks at all machines of all providers, and tells which bear our mark and are known to nobody.
    ///
    /// # Errors
    /// When the registry has ended. Providers that fail are named in the answer.
    pub async fn find_orphans(&self) -> Result<Orphans, CollectError> {
        self.survey(false).await
    }

    /// Destroys what bears our mark and is known to nobody, and tells what that was.
    ///
    /// # Errors
    /// When the registry has ended. Providers that fail are named in the answer.
    pub async fn collect_orphans(&self) -> Result<Orphans, CollectError> {
        self.survey(true).await
    }

    async fn survey(&self, destroy: bool) -> Result<Orphans, CollectError> {
        let answer = self.request(|reply| Command::Collect(destroy, reply));
        answer.await.unwrap_or(Err(CollectError::Ended))
    }

    /// What happens from now on. A listener who falls behind is told so, and reads what he missed with
    /// [`events_after`](Self::events_after). `None` when the registry has ended.
    #[must_use]
    pub fn events(&self) -> Option<broadcast::Receiver<MachineEvent>> {
        Some(self.events.upgrade()?.subscribe())
    }

    /// What happened after an event, the oldest first, at most so many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn events_after(
        &self,
        number: u64,
        most: u32,
    ) -> Result<Vec<MachineEvent>, StoreError> {
        database::events_after(&self.store, number, most).await
    }
}
