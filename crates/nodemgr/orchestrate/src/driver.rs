//! The one task: owns every run, writes down what it decides, then does it.

mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::Moment;
use muster_machines::{Busy, WorkKind};
use muster_telemetry::{CancellationToken, ErrorChain};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::turn::Turn;
use crate::database::{self, NewRun, Saved};
use crate::engine::Engine;
use crate::entry::{Entry, JobResult, RunEvent, RunOutcome};
use crate::error::{BeginError, RunError};
use crate::fault::{DECIDED, REMOVED, hit_written};
use crate::handle::Parts;
use crate::job::{Job, Slot};
use crate::jobs::{AtWork, Executors, JobContext, Shared, perform};
use crate::log::{self, RunLog};
use crate::retention;
use crate::run::{RunId, RunOrder};

/// How long a write that failed is waited with: the disk may have space again.
const WRITE_RETRY: Duration = Duration::from_secs(5);
/// How often old runs are looked for when nothing happens.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// How much is taken in before it is written down together.
const BATCH: usize = 256;

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Command {
    Begin(Box<RunOrder>, Reply<Result<RunId, BeginError>>),
    Cancel(RunId, Reply<Result<(), RunError>>),
    Remove(RunId, Reply<Result<(), RunError>>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

/// A run under way.
struct Active {
    engine: Engine,
    log: RunLog,
    /// What ends each job that is under way.
    jobs: BTreeMap<Job, CancellationToken>,
    /// Its machines are not put away while it works on them.
    busy: BTreeMap<Slot, Busy>,
    executors: Executors,
    at_work: AtWork,
    /// When to look at it again.
    wake: Option<Moment>,
}

/// A job is over.
struct Finished {
    run: RunId,
    job: Job,
    attempt: u32,
    result: JobResult,
}

pub(crate) struct Driver {
    parts: Parts,
    shared: Arc<Shared>,
    active: BTreeMap<RunId, Active>,
    /// Runs that are over and kept, and since when.
    over: BTreeMap<RunId, Moment>,
    keys: BTreeMap<String, (RunId, u64)>,
    next_event: u64,
    /// Runs that something happened to.
    touched: BTreeSet<RunId>,
    jobs: JoinSet<Finished>,
    /// Writers of logs, and removers of old ones.
    writers: JoinSet<()>,
    events: broadcast::Sender<RunEvent>,
    log_grew: watch::Sender<u64>,
}

impl Driver {
    pub(crate) fn new(
        parts: Parts,
        saved: Saved,
        events: broadcast::Sender<RunEvent>,
        log_grew: watch::Sender<u64>,
    ) -> Self {
        let shared = Arc::new(Shared::new(&parts));
        let keys = saved.keys.into_iter();
        let mut driver = Self {
            parts,
            shared,
            active: BTreeMap::new(),
            over: saved.over.into_iter().collect(),
            keys: keys
                .map(|(key, run, digest)| (key, (run, digest)))
                .collect(),
            next_event: saved.next_event,
            touched: BTreeSet::new(),
            jobs: JoinSet::new(),
            writers: JoinSet::new(),
            events,
            log_grew,
        };
        for (id, engine) in saved.active {
            driver.add(id, engine);
        }
        driver
    }

    fn add(&mut self, id: RunId, engine: Engine) {
        let clock = Arc::clone(&self.parts.clock);
        let (settings, grew) = (&self.parts.settings, self.log_grew.clone());
        let (log, writer) = RunLog::open(settings, &id, clock, grew);
        self.writers.spawn(writer);
        let mut active = Active {
            engine,
            log,
            jobs: BTreeMap::new(),
            busy: BTreeMap::new(),
            executors: Executors::default(),
            at_work: AtWork::default(),
            wake: None,
        };
        let slots: Vec<Slot> = active.engine.machines().keys().cloned().collect();
        for slot in slots {
            self.hold(&mut active, &slot);
        }
        self.active.insert(id.clone(), active);
        self.touched.insert(id);
    }

    /// A machine is busy from when it runs until it is cleaned up.
    fn hold(&self, active: &mut Active, slot: &Slot) {
        let clean = active.engine.jobs().get(&Job::Clean(slot.clone()));
        if clean.is_some_and(|state| !state.begun)
            && let Some(machine) = active.engine.machine(slot)
            // One that is gone needs no holding: the next job says so.
            && let Ok(busy) = self.parts.machines.begin_work(machine, WorkKind::Command)
        {
            active.busy.insert(slot.clone(), busy);
        }
    }

    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut turn = Turn::default();
        self.interrupt(&mut turn);
        loop {
            self.decide(&mut turn);
            self.carry_out(std::mem::take(&mut turn)).await;
            let wake = self.wake();
            tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.take(command, &mut turn),
                    None => break,
                },
                Some(finished) = self.jobs.join_next() => self.finish(finished, &mut turn),
                Some(ended) = self.writers.join_next() => {
                    if let Err(error) = ended {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
                () = tokio::time::sleep(wake) => self.touch_due(),
            }
            for _ in 0..BATCH {
                if let Some(finished) = self.jobs.try_join_next() {
                    self.finish(finished, &mut turn);
                } else if let Ok(command) = inbox.try_recv() {
                    self.take(command, &mut turn);
                } else {
                    break;
                }
            }
        }
    }

    fn now(&self) -> Moment {
        self.parts.clock.now()
    }

    /// What a manager before this one left under way.
    fn interrupt(&mut self, turn: &mut Turn) {
        let ids: Vec<RunId> = self.active.keys().cloned().collect();
        for id in ids {
            let entries = self.active.get(&id).map(|it| it.engine.interrupted());
            for entry in entries.into_iter().flatten() {
                self.record(&id, entry, turn);
            }
        }
    }

    fn wake(&self) -> Duration {
        let now = self.now();
        let wakes = self.active.values().filter_map(|active| active.wake);
        wakes.min().map_or(HOUR, |at| at.since(now).min(HOUR))
    }

    fn touch_due(&mut self) {
        let now = self.now();
        let due = self.active.iter();
        let due = due.filter(|(_, active)| active.wake.is_some_and(|at| at <= now));
        self.touched.extend(due.map(|(id, _)| id.clone()));
    }

    fn take(&mut self, command: Command, turn: &mut Turn) {
        match command {
            Command::Begin(order, reply) => {
                let begun = self.begin(*order, turn);
                turn.tell(reply, begun);
            }
            Command::Cancel(id, reply) => {
                let cancelled = self.cancel(&id, turn);
                turn.tell(reply, cancelled);
            }
            Command::Remove(id, reply) => {
                let removed = self.remove(&id, turn);
                turn.tell(reply, removed);
            }
        }
    }

    fn begin(&mut self, order: RunOrder, turn: &mut Turn) -> Result<RunId, BeginError> {
        let digest = database::digest(&order.workflow.to_json());
        if let Some(key) = &order.key
            && let Some((run, first)) = self.keys.get(key)
        {
            return match *first == digest {
                true => Ok(run.clone()),
                false => Err(BeginError::KeyUsed {
                    key: key.clone(),
                    run: run.clone(),
                }),
            };
        }
        if self.active.len() >= self.parts.settings.runs {
            return Err(BeginError::TooMany(self.active.len()));
        }
        let id = RunId::random();
        let now = self.now();
        let workflow = Arc::new(order.workflow);
        if let Some(key) = &order.key {
            self.keys.insert(key.clone(), (id.clone(), digest));
        }
        turn.changes.accepted.push(NewRun {
            id: id.clone(),
            key: order.key,
            workflow: Arc::clone(&workflow),
            at: now,
        });
        self.add(id.clone(), Engine::new(workflow, now));
        self.record(&id, Entry::Accepted, turn);
        Ok(id)
    }

    fn cancel(&mut self, id: &RunId, turn: &mut Turn) -> Result<(), RunError> {
        let Some(active) = self.active.get(id) else {
            return Err(match self.over.contains_key(id) {
                true => RunError::Over(id.clone()),
                false => RunError::Unknown(id.clone()),
            });
        };
        if !active.engine.is_stopped() {
            self.record(id, Entry::CancelAsked, turn);
        }
        Ok(())
    }

    fn remove(&mut self, id: &RunId, turn: &mut Turn) -> Result<(), RunError> {
        if self.active.contains_key(id) {
            return Err(RunError::UnderWay(id.clone()));
        }
        if self.over.remove(id).is_none() {
            return Err(RunError::Unknown(id.clone()));
        }
        self.forget(id.clone(), turn);
        Ok(())
    }

    fn forget(&mut self, id: RunId, turn: &mut Turn) {
        self.over.remove(&id);
        self.keys.retain(|_, (run, _)| *run != id);
        turn.changes.removed.push(id);
    }

    fn finish(&mut self, finished: Result<Finished, tokio::task::JoinError>, turn: &mut Turn) {
        let finished = match finished {
            Ok(finished) => finished,
            // Its end will never be told: better to begin anew than to wait for it for ever.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let Some(active) = self.active.get_mut(&finished.run) else {
            return;
        };
        active.jobs.remove(&finished.job);
        let entry = Entry::Ended {
            job: finished.job,
            attempt: finished.attempt,
            result: finished.result,
        };
        self.record(&finished.run, entry, turn);
    }

    /// Takes an entry into a run's journal: it is written down with the next write, and only then acted upon.
    fn record(&mut self, id: &RunId, what: Entry, turn: &mut Turn) {
        let at = self.now();
        let Some(mut active) = self.active.remove(id) else {
            return;
        };
        active.engine.apply(at, &what);
        match &what {
            Entry::Begun { job, attempt } => turn.begin.push((id.clone(), job.clone(), *attempt)),
            Entry::Ended {
                job: Job::Provision(slot),
                ..
            } => self.hold(&mut active, slot),
            Entry::Over { outcome } => turn.changes.over.push((id.clone(), at, outcome.clone())),
            _ => {}
        }
        turn.changes.entries.push(RunEvent {
            number: self.next_event,
            at,
            run: id.clone(),
            what,
        });
        self.next_event += 1;
        self.active.insert(id.clone(), active);
        self.touched.insert(id.clone());
    }

    /// Asks each run that something happened to what follows from it.
    fn decide(&mut self, turn: &mut Turn) {
        let now = self.now();
        while let Some(id) = self.touched.pop_first() {
            while let Some(active) = self.active.get_mut(&id) {
                let next = active.engine.next(now);
                if next.entries.is_empty() {
                    active.wake = next.wake;
                    turn.abort
                        .extend(next.abort.into_iter().map(|job| (id.clone(), job)));
                    break;
                }
                for entry in next.entries {
                    self.record(&id, entry, turn);
                }
            }
            self.touched.remove(&id);
        }
        let over = self.over.iter().map(|(id, &at)| (id, at));
        for id in retention::to_remove(over, now, &self.parts.settings) {
            self.forget(id, turn);
        }
    }

    /// Writes down what was decided, tells, then does it.
    async fn carry_out(&mut self, turn: Turn) {
        let changes = Arc::new(turn.changes);
        if !changes.is_empty() {
            muster_fault::hit(DECIDED);
            while let Err(error) = database::save(&self.parts.store, &changes).await {
                tracing::error!(error = %ErrorChain(&error), "runs cannot be written down; trying again");
                tokio::time::sleep(WRITE_RETRY).await;
            }
            for event in &changes.entries {
                hit_written(&event.what);
                // Nobody may be listening.
                let _ = self.events.send(event.clone());
            }
        }
        for tell in turn.told {
            tell();
        }
        for (run, at, outcome) in &changes.over {
            self.conclude(run, *at, outcome);
        }
        for run in &changes.removed {
            muster_fault::hit(REMOVED);
            let folder = log::folder(&self.parts.settings, run);
            self.writers.spawn(remove_log(folder));
        }
        for (run, job, attempt) in turn.begin {
            self.spawn(&run, job, attempt);
        }
        for (run, job) in turn.abort {
            let active = self.active.get(&run);
            if let Some(token) = active.and_then(|active| active.jobs.get(&job)) {
                token.cancel();
            }
        }
    }

    fn conclude(&mut self, run: &RunId, at: Moment, outcome: &RunOutcome) {
        tracing::info!(%run, %outcome, "run is over");
        self.active.remove(run);
        self.over.insert(run.clone(), at);
    }

    fn spawn(&mut self, run: &RunId, job: Job, attempt: u32) {
        let Some(active) = self.active.get_mut(run) else {
            return;
        };
        if let Job::Clean(slot) = &job {
            active.busy.remove(slot);
        }
        let cancel = CancellationToken::new();
        active.jobs.insert(job.clone(), cancel.clone());
        let context = JobContext {
            run: run.clone(),
            workflow: Arc::clone(active.engine.workflow()),
            attempt,
            effort: active.engine.effort(&job),
            machine: active.engine.machine(job.slot()).cloned(),
            well: active.engine.is_well(),
            left_over: active.engine.left_over(&job),
            at_work: active.at_work.clone(),
            not_brought_back: active.engine.not_brought_back(job.slot()),
            shared: Arc::clone(&self.shared),
            executors: active.executors.clone(),
            log: active.log.of(&job),
            cancel,
        };
        let run = run.clone();
        let work: Pin<Box<dyn Future<Output = Finished> + Send>> = Box::pin(async move {
            let result = perform(context, &job).await;
            Finished {
                run,
                job,
                attempt,
                result,
            }
        });
        self.jobs.spawn(work);
    }
}

async fn remove_log(folder: std::path::PathBuf) {
    let work = tokio::task::spawn_blocking(move || (log::remove(&folder), folder));
    if let Ok((Err(error), folder)) = work.await {
        // The next start tries again.
        let folder = folder.display();
        tracing::warn!(%folder, error = %ErrorChain(&error), "an old log cannot be removed");
    }
}
