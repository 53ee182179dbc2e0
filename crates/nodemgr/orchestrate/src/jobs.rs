//! Doing what was decided: each job of a run, once its beginning is on disk.

mod at_work;
mod clean;
mod leftover;
mod provision;
mod ready;
mod unsaved;
mod work;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use muster_executor::Executor;
use muster_machines::{Machines, Record};
use muster_provider::MachineId;
use muster_telemetry::{CancellationToken, ErrorChain};

use crate::entry::{JobResult, Why};
use crate::fault::hit_done;
use crate::handle::Parts;
use crate::job::{Job, Slot};
use crate::log::JobLog;
use crate::reach::{Chooser, Reach, ReachError};
use crate::run::RunId;
use crate::settings::Settings;
use crate::workflow::there::Login;
use crate::workflow::{Effort, Transfer, Workflow};

pub(crate) use self::at_work::AtWork;

/// The label of machines that were made for a run.
const RUN_LABEL: &str = "muster-run";

/// The longest text of a failure that is kept, in characters.
const LONGEST_WHY: usize = 2000;

/// What all jobs need.
#[derive(Debug)]
pub(crate) struct Shared {
    machines: Machines,
    chooser: Arc<dyn Chooser>,
    reach: Arc<dyn Reach>,
    settings: Settings,
}

impl Shared {
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            machines: parts.machines.clone(),
            chooser: Arc::clone(&parts.chooser),
            reach: Arc::clone(&parts.reach),
            settings: parts.settings.clone(),
        }
    }
}

/// The executors of a run's machines: connections are made once, and each machine is asked once whom it takes us for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Executors(Arc<Mutex<BTreeMap<Slot, Reached>>>);

#[derive(Debug)]
struct Reached {
    executor: Arc<dyn Executor>,
    /// As whom, once that was asked.
    login: Option<Login>,
}

impl Executors {
    fn get(&self, slot: &Slot) -> Option<Arc<dyn Executor>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(slot).map(|it| Arc::clone(&it.executor))
    }

    fn set(&self, slot: &Slot, executor: &Arc<dyn Executor>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = Reached {
            executor: Arc::clone(executor),
            login: None,
        };
        all.insert(slot.clone(), reached);
    }

    fn login(&self, slot: &Slot) -> Option<Login> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(slot).and_then(|it| it.login.clone())
    }

    fn set_login(&self, slot: &Slot, login: &Login) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reached) = all.get_mut(slot) {
            reached.login = Some(login.clone());
        }
    }
}

/// A job, and what it needs to know.
#[derive(Debug)]
pub(crate) struct JobContext {
    pub(crate) run: RunId,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) attempt: u32,
    pub(crate) effort: Effort,
    /// The machine, once it is known.
    pub(crate) machine: Option<MachineId>,
    /// Whether nothing has gone wrong in the run.
    pub(crate) well: bool,
    /// Steps whose commands may go on in the machine though nobody waits for them. They are ended before anything else is done.
    pub(crate) left_over: Vec<Box<str>>,
    pub(crate) at_work: AtWork,
    /// Folders whose changes are still in the machine, and nowhere else.
    pub(crate) not_brought_back: Vec<Transfer>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) executors: Executors,
    pub(crate) log: JobLog,
    /// Cancelled when the job shall end.
    pub(crate) cancel: CancellationToken,
}

/// Does a job, and waits until what it wrote is in the run's log.
pub(crate) async fn perform(mut context: JobContext, job: &Job) -> JobResult {
    let result = match job {
        Job::Provision(slot) => provision::provision(&context, slot).await,
        Job::Ready(slot) => {
            let cancel = context.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => JobResult::Aborted,
                result = ready::wait_ready(&context, slot) => result,
            }
        }
        Job::Work { step, slot } => {
            let (cancel, timeout) = (context.cancel.clone(), context.effort.timeout.get());
            tokio::select! {
                biased;
                () = cancel.cancelled() => JobResult::Aborted,
                result = tokio::time::timeout(timeout, work::work(&mut context, step, slot)) => {
                    result.unwrap_or(JobResult::Failed(Why::TimedOut))
                }
            }
        }
        Job::Clean(slot) => clean::clean(&context, slot).await,
    };
    if let (Job::Work { .. }, JobResult::Done { .. }) = (job, &result) {
        // Somebody may have tried it in vain before.
        context.note_reachable(true).await;
    }
    if let JobResult::Failed(why) = &result {
        let attempts = context.effort.attempts;
        let attempt = context.attempt;
        let again = match attempt < attempts {
            true => format!(" (attempt {attempt} of {attempts})"),
            false => String::new(),
        };
        context.log.note(format!("{job}: {why}{again}")).await;
    }
    context.log.flush().await;
    hit_done(job);
    result
}

impl JobContext {
    /// The record of the job's machine.
    fn record(&self) -> Result<Arc<Record>, Why> {
        let Some(id) = &self.machine else {
            return Err(trouble_text("it has no machine".to_owned()));
        };
        let machine = self.shared.machines.get(id);
        let machine = machine.ok_or_else(|| trouble_text(format!("machine {id} is gone")))?;
        Ok(Arc::clone(machine.record()))
    }

    async fn reach(&self, slot: &Slot, record: &Record) -> Result<Arc<dyn Executor>, ReachError> {
        if let Some(executor) = self.executors.get(slot) {
            return Ok(executor);
        }
        let executor = self.shared.reach.reach(record).await?;
        self.executors.set(slot, &executor);
        Ok(executor)
    }
}

fn trouble_text(text: String) -> Why {
    let text = muster_config::printable(&text, LONGEST_WHY);
    Why::Trouble { text }
}

fn trouble(error: &(dyn Error + 'static)) -> Why {
    trouble_text(ErrorChain(error).to_string())
}

/// The registry has ended, so this manager does too: the next one goes on.
async fn never<T>() -> T {
    std::future::pending().await
}
