//! The one task of the launcher, and its handle.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use muster_api::domain::{InstanceIdent, InstanceStatus, RuntimeId};
use muster_runtime::{AdoptError, RunEvent, Runtime};
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, AbortHandle, JoinSet};

use crate::actions::Workshop;
use crate::clock;
use crate::database::{self, LoadError};
use crate::decide::{Decider, Effect, Event, Reach, Saved, Step};
use crate::limits::Limits;
use crate::observe::{Directory, Observed, Observer};
use crate::reports::Reports;
use crate::seams::{Images, Network, Permissions, Resources};
use crate::takeover;
use crate::target::{DesiredSet, EnvOverride};

muster_fault::points! {
    /// Decided, not yet written down.
    pub(crate) DECIDED = "launcher.decided",
    /// Written down, nothing done.
    pub(crate) WRITTEN = "launcher.written",
    /// Everything of a step has been begun.
    pub(crate) BEGUN = "launcher.begun",
    /// An instance has been started, the launcher does not know yet.
    pub(crate) STARTED = "launcher.started",
    /// An instance has been stopped, the launcher does not know yet.
    pub(crate) STOPPED = "launcher.stopped",
    /// An image is there, the launcher does not know yet.
    pub(crate) FETCHED = "launcher.fetched",
}

/// How many commands wait.
const COMMANDS: usize = 32;
/// How long a write that failed is waited with: the disk may have space again.
const WRITE_RETRY: Duration = Duration::from_secs(5);

/// What the launcher is put together from.
#[derive(Debug)]
pub struct Parts {
    /// The node's database, opened with [`SCHEMA`](crate::SCHEMA).
    pub store: Store,
    /// What runs instances.
    pub runtimes: Vec<Arc<dyn Runtime>>,
    /// Gets images.
    pub images: Arc<dyn Images>,
    /// Registers permissions.
    pub permissions: Arc<dyn Permissions>,
    /// Makes networks.
    pub network: Arc<dyn Network>,
    /// Gives resources out.
    pub resources: Arc<dyn Resources>,
    /// Are told when instances come and go.
    pub observers: Vec<Arc<dyn Observer>>,
    /// State files of instances are below.
    pub state_folder: PathBuf,
    /// Storage of instances is below.
    pub storage_folder: PathBuf,
}

/// Why the launcher cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartLauncherError {
    /// The last state cannot be read.
    #[error("cannot read what this node ran last")]
    Load(#[source] LoadError),
    /// A runtime cannot say what runs.
    #[error("cannot take over what runs in runtime {runtime}")]
    Adopt {
        /// Which runtime.
        runtime: RuntimeId,
        /// Why.
        source: AdoptError,
    },
}

/// The launcher's task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the launcher has ended")]
pub struct LauncherGone;

#[derive(Debug)]
enum Command {
    Decide(Event),
    Snapshot(oneshot::Sender<Vec<InstanceStatus>>),
}

/// The handle. The task ends when every handle is gone; what runs goes on.
#[derive(Debug, Clone)]
pub struct Launcher {
    commands: mpsc::Sender<Command>,
    directory: Directory,
}

impl Launcher {
    /// Takes over what runs, starts what should run and does not, and goes on from there. The future is the task.
    pub async fn start(
        mut parts: Parts,
        limits: Limits,
    ) -> Result<(Self, Reports, impl Future<Output = ()> + Send), StartLauncherError> {
        let saved = database::load(&parts.store)
            .await
            .map_err(StartLauncherError::Load)?;
        let mut runtimes: BTreeMap<RuntimeId, Arc<dyn Runtime>> = BTreeMap::new();
        let mut events = SelectAll::new();
        for runtime in &parts.runtimes {
            events.push(stream(runtime.events()));
            runtimes.insert(runtime.info().runtime_id, Arc::clone(runtime));
        }
        let observed = Observed::new(std::mem::take(&mut parts.observers));
        let directory = observed.directory().clone();
        let workshop = Workshop {
            parts,
            runtimes,
            observed,
        };
        let is_new = takeover::remembers_nothing(&saved);
        let adopted = match is_new {
            // What runs may be all that there should be: it runs on until the controller says what that is.
            true => Vec::new(),
            false => workshop.take_over(&saved, limits.stop_grace).await?,
        };
        let adopted = workshop.introduce(&saved, adopted).await;
        let (decider, step) = Decider::recover(limits.clone(), saved, adopted, clock::now());
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let reports = Reports::beginning_with(decider.statuses());
        let driver = Driver {
            decider,
            workshop: Arc::new(workshop),
            reports: reports.clone(),
            actions: JoinSet::new(),
            fetches: BTreeMap::new(),
            is_new,
            grace: limits.stop_grace,
        };
        let launcher = Self {
            commands,
            directory,
        };
        Ok((launcher, reports, driver.run(inbox, events, step)))
    }

    async fn decide(&self, event: Event) -> Result<(), LauncherGone> {
        let sent = self.commands.send(Command::Decide(event)).await;
        sent.map_err(|_| LauncherGone)
    }

    /// The controller wants exactly these. Returns when the launcher has the set; [`Reports`] tell what becomes of it.
    pub async fn update(&self, wanted: impl Into<DesiredSet>) -> Result<(), LauncherGone> {
        self.decide(Event::Update(wanted.into())).await
    }

    /// Who runs, and who did last.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// These overrides replace all earlier ones.
    pub async fn override_env(&self, overrides: Vec<EnvOverride>) -> Result<(), LauncherGone> {
        self.decide(Event::Overrides(overrides)).await
    }

    /// From now on the node reaches these.
    pub async fn reaches(&self, reach: Reach) -> Result<(), LauncherGone> {
        self.decide(Event::Reach(reach)).await
    }

    /// What starts have waited for may be there now: those that wait try at once, and wait shortly again.
    pub async fn look_again(&self) -> Result<(), LauncherGone> {
        self.decide(Event::LookAgain).await
    }

    /// All statuses, as they are now.
    pub async fn snapshot(&self) -> Result<Vec<InstanceStatus>, LauncherGone> {
        let (answer, wait) = oneshot::channel();
        let sent = self.commands.send(Command::Snapshot(answer)).await;
        sent.map_err(|_| LauncherGone)?;
        wait.await.map_err(|_| LauncherGone)
    }
}

fn stream(
    events: mpsc::Receiver<RunEvent>,
) -> std::pin::Pin<Box<dyn futures_util::Stream<Item = RunEvent> + Send>> {
    Box::pin(futures_util::stream::unfold(events, |mut events| async {
        let event = events.recv().await?;
        Some((event, events))
    }))
}

struct Driver {
    decider: Decider,
    workshop: Arc<Workshop>,
    reports: Reports,
    actions: JoinSet<Event>,
    fetches: BTreeMap<InstanceIdent, AbortHandle>,
    /// Nothing was taken over yet: there was no record of anything.
    is_new: bool,
    /// For what has to end and of which nobody knows how long it may take.
    grace: Duration,
}

impl Driver {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Command>,
        mut events: SelectAll<std::pin::Pin<Box<dyn futures_util::Stream<Item = RunEvent> + Send>>>,
        first: Step,
    ) {
        self.carry_out(first).await;
        loop {
            let now = clock::now();
            let due_in = self.decider.due_in(now);
            let nap = clock::nap(due_in);
            let event = tokio::select! {
                command = inbox.recv() => match command {
                    Some(Command::Decide(event)) => {
                        if matches!(event, Event::Update(_)) {
                            self.reports.supersede();
                        }
                        event
                    }
                    Some(Command::Snapshot(answer)) => {
                        // Whoever asked may have gone.
                        let _ = answer.send(self.decider.statuses());
                        continue;
                    }
                    None => break,
                },
                Some(done) = self.actions.join_next_with_id() => match done {
                    Ok((task, event)) => {
                        self.forget_fetch(task, &event);
                        event
                    }
                    // Its end will never be told: better to begin anew than to wait for it for ever.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // Only fetches are ended from outside, and nobody waits for those.
                    Err(_) => continue,
                },
                Some(event) = events.next() => Event::Run(event),
                () = tokio::time::sleep(nap) => {
                    // The clock that stops for a sleeping machine may be behind: then this is once too often.
                    let passed = clock::now().steady.saturating_sub(now.steady);
                    if due_in.is_none_or(|due| due > passed) {
                        continue;
                    }
                    Event::Tick
                }
            };
            if matches!(event, Event::Update(_))
                && std::mem::take(&mut self.is_new)
                && let Err(error) = self.workshop.take_over(&Saved::default(), self.grace).await
            {
                // The same ends the launcher when it starts with records: better to begin anew than to start things twice.
                tracing::error!(error = %ErrorChain(&error), "cannot remove what nobody has a record of");
                break;
            }
            let step = self.decider.step(event, clock::now());
            self.carry_out(step).await;
        }
        self.reports.close();
    }

    /// What has ended cannot be stopped any more. Another fetch for the same instance may have begun meanwhile.
    fn forget_fetch(&mut self, task: task::Id, event: &Event) {
        if let Event::Fetched { target, .. } = event
            && let Entry::Occupied(known) = self.fetches.entry(target.ident().clone())
            && known.get().id() == task
        {
            known.remove();
        }
    }

    async fn carry_out(&mut self, step: Step) {
        muster_fault::hit(DECIDED);
        self.write_down(&step).await;
        muster_fault::hit(WRITTEN);
        for effect in step.effects {
            self.begin(effect);
        }
        muster_fault::hit(BEGUN);
    }

    /// What is not on disk is not done: without the disk the launcher stands still, and says so, until the disk is back.
    async fn write_down(&self, step: &Step) {
        if step.changes.is_empty() {
            return;
        }
        while let Err(error) =
            database::save(&self.workshop.parts.store, step.changes.clone()).await
        {
            tracing::error!(error = %ErrorChain(&error), retry_in = ?WRITE_RETRY, "cannot write down what was decided");
            if matches!(error, StoreError::Closed { .. }) {
                return;
            }
            tokio::time::sleep(WRITE_RETRY).await;
        }
    }

    fn begin(&mut self, effect: Effect) {
        let workshop = Arc::clone(&self.workshop);
        match effect {
            Effect::Fetch(target) => {
                let ident = target.ident().clone();
                let handle = self.actions.spawn(async move {
                    let result = workshop.fetch(&target).await;
                    muster_fault::hit(FETCHED);
                    Event::Fetched { target, result }
                });
                self.fetches.insert(ident, handle);
            }
            Effect::StopFetching(ident) => {
                if let Some(handle) = self.fetches.remove(&ident) {
                    handle.abort();
                }
            }
            Effect::Start { target, run } => {
                self.actions.spawn(async move {
                    let result = workshop.start(&target, run).await;
                    muster_fault::hit(STARTED);
                    Event::Started {
                        instance: target.ident().clone(),
                        run,
                        result,
                    }
                });
            }
            Effect::Stop { target, grace } => {
                self.actions.spawn(async move {
                    let result = workshop.stop(&target, grace).await;
                    muster_fault::hit(STOPPED);
                    Event::Stopped {
                        instance: target.ident().clone(),
                        result,
                    }
                });
            }
            Effect::Keep(manifests) => self.workshop.parts.images.keep(manifests),
            Effect::Report(statuses) => self.reports.changed(statuses),
            Effect::Settled(all) => self.reports.settled(all),
        }
    }
}
