//! What others hold of the orchestrator.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

use muster_machines::Machines;
use muster_provider::{Clock, MachineId};
use muster_store::{Store, StoreError};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::database;
use crate::driver::{Command, Driver};
use crate::engine::{Engine, JobState};
use crate::entry::{Entry, RunEvent, RunOutcome};
use crate::error::{BeginError, RunError, StartRunsError};
use crate::job::{Job, Slot};
use crate::log::{self, LogPage};
use crate::reach::{Chooser, Reach};
use crate::run::{RunId, RunOrder, RunSummary};
use crate::settings::Settings;
use crate::workflow::Workflow;

/// How many commands wait.
const COMMANDS: usize = 64;
/// How many events a listener may be behind; further behind, he reads them from the database.
const EVENTS: usize = 256;
/// How many bytes of a log are read at once, at most.
const LOG_PAGE: usize = 1 << 20;

/// What the orchestrator is put together from.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The database, opened with [`SCHEMA`](crate::SCHEMA).
    pub store: Store,
    /// The machines there are.
    pub machines: Machines,
    /// Whom to order machines from.
    pub chooser: Arc<dyn Chooser>,
    /// How to reach them.
    pub reach: Arc<dyn Reach>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// How patient it is.
    pub settings: Settings,
}

/// A run with everything about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// What lists show of it.
    pub summary: RunSummary,
    /// What it shall do.
    pub workflow: Arc<Workflow>,
    /// Its machines, as far as they are known.
    pub machines: BTreeMap<Slot, MachineId>,
    /// How far each job is.
    pub jobs: BTreeMap<Job, JobState>,
}

/// The handle. The task ends when every handle is gone, or it is dropped; the next start goes on from there.
#[derive(Debug, Clone)]
pub struct Runs {
    commands: mpsc::Sender<Command>,
    events: broadcast::WeakSender<RunEvent>,
    log_grew: watch::Receiver<u64>,
    store: Store,
    settings: Settings,
}

impl Runs {
    /// Reads what there is and goes on from there. The future is the task.
    ///
    /// # Errors
    /// When the database or the folder of logs cannot be read.
    pub async fn start(
        parts: Parts,
    ) -> Result<(Self, impl Future<Output = ()> + Send), StartRunsError> {
        let saved = database::load(&parts.store).await?;
        let known = saved.active.iter().map(|(id, _)| id);
        let known = known.chain(saved.over.iter().map(|(id, _)| id));
        let known: BTreeSet<String> = known.map(ToString::to_string).collect();
        let folder = parts.settings.folder.clone();
        let swept = tokio::task::spawn_blocking(move || sweep(&folder, &known));
        let swept = swept
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        swept.map_err(|source| StartRunsError::Folder {
            path: parts.settings.folder.clone(),
            source,
        })?;
        let (sender, _) = broadcast::channel(EVENTS);
        let (grew, log_grew) = watch::channel(0);
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let handle = Self {
            commands,
            events: sender.downgrade(),
            log_grew,
            store: parts.store.clone(),
            settings: parts.settings.clone(),
        };
        let driver = Driver::new(parts, saved, sender, grew);
        Ok((handle, driver.run(inbox)))
    }

    async fn request<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Begins a run. Answers when it is durable: from then on it is carried out, whatever crashes.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn begin(&self, order: RunOrder) -> Result<RunId, BeginError> {
        let answer = self.request(|reply| Command::Begin(Box::new(order), reply));
        answer.await.unwrap_or(Err(BeginError::Ended))
    }

    /// Ends a run: what is under way is aborted, machines are cleaned up. Answers when that is durable.
    ///
    /// # Errors
    /// When there is no such run, or it is over.
    pub async fn cancel(&self, run: &RunId) -> Result<(), RunError> {
        let answer = self.request(|reply| Command::Cancel(run.clone(), reply));
        answer.await.unwrap_or(Err(RunError::Ended))
    }

    /// Forgets a run that is over, and its log.
    ///
    /// # Errors
    /// When there is no such run, or it is under way.
    pub async fn remove(&self, run: &RunId) -> Result<(), RunError> {
        let answer = self.request(|reply| Command::Remove(run.clone(), reply));
        answer.await.unwrap_or(Err(RunError::Ended))
    }

    /// The newest runs, the newest first, at most so many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list(&self, most: u32) -> Result<Vec<RunSummary>, StartRunsError> {
        database::list(&self.store, most).await
    }

    /// Everything about a run.
    ///
    /// # Errors
    /// When there is no such run, or what is recorded of it cannot be read.
    pub async fn show(&self, run: &RunId) -> Result<RunView, RunError> {
        let (summary, engine) = self.look(run).await?;
        Ok(RunView {
            summary,
            workflow: Arc::clone(engine.workflow()),
            machines: engine.machines().clone(),
            jobs: engine.jobs().clone(),
        })
    }

    async fn look(&self, run: &RunId) -> Result<(RunSummary, Engine), RunError> {
        match database::run(&self.store, run).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(RunError::Unknown(run.clone())),
            Err(source) => Err(RunError::Show {
                run: run.clone(),
                source: Box::new(source),
            }),
        }
    }

    /// Waits until a run is over.
    ///
    /// # Errors
    /// When there is no such run, or the orchestrator has ended.
    pub async fn wait(&self, run: &RunId) -> Result<RunOutcome, RunError> {
        loop {
            // First listen, then look: what comes in between is heard.
            let mut events = self.events().ok_or(RunError::Ended)?;
            if let Some((_, outcome)) = self.look(run).await?.0.over {
                return Ok(outcome);
            }
            loop {
                match events.recv().await {
                    Ok(event) if event.run == *run => {
                        if let Entry::Over { outcome } = event.what {
                            return Ok(outcome);
                        }
                    }
                    Ok(_) => {}
                    // What was missed may have been the end.
                    Err(broadcast::error::RecvError::Lagged(_)) => break,
                    Err(broadcast::error::RecvError::Closed) => return Err(RunError::Ended),
                }
            }
        }
    }

    /// What happens from now on. A listener who falls behind is told so, and reads what he missed with
    /// [`events_after`](Self::events_after). `None` when the orchestrator has ended.
    #[must_use]
    pub fn events(&self) -> Option<broadcast::Receiver<RunEvent>> {
        Some(self.events.upgrade()?.subscribe())
    }

    /// What happened after an event, the oldest first, at most so many; of one run, if one is named.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn events_after(
        &self,
        run: Option<&RunId>,
        number: u64,
        most: u32,
    ) -> Result<Vec<RunEvent>, StoreError> {
        database::events_after(&self.store, run, number, most).await
    }

    /// What commands of a run wrote, from a position on: 0, or where the last page ended. Whoever hears that a job is over
    /// finds everything that it wrote.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn log(&self, run: &RunId, from: u64) -> Result<LogPage, RunError> {
        let folder = log::folder(&self.settings, run);
        let read = tokio::task::spawn_blocking(move || log::read(&folder, from, LOG_PAGE));
        let page = read
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        page.map_err(|source| RunError::Log {
            run: run.clone(),
            source,
        })
    }

    /// Changes whenever a log grows, for whoever follows one.
    #[must_use]
    pub fn log_changes(&self) -> watch::Receiver<u64> {
        self.log_grew.clone()
    }
}

/// Makes the folder of logs, and removes logs of runs that are not known any more.
fn sweep(folder: &Path, known: &BTreeSet<String>) -> io::Result<()> {
    muster_durable::make_folder(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_run = name.to_str().is_some_and(|name| {
            name.parse::<RunId>().is_ok() && name.starts_with("r-") && !known.contains(name)
        });
        if is_run {
            log::remove(&entry.path())?;
        }
    }
    Ok(())
}
