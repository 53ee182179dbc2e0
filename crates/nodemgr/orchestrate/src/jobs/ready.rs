//! A machine answers: it is tried, later and later, until it does.

use std::time::Duration;

use muster_executor::{ExecutorError, FailureClass};
use tokio::time::{Instant, timeout};

use super::{JobContext, trouble, trouble_text};
use crate::entry::{JobResult, Why};
use crate::job::Slot;

pub(super) async fn wait_ready(context: &JobContext, slot: &Slot) -> JobResult {
    let settings = &context.shared.settings;
    let begun = Instant::now();
    let longest = context.effort.timeout.get();
    let mut pause = settings.probe;
    let mut last_noted = None;
    loop {
        let left = longest.saturating_sub(begun.elapsed());
        let tried = timeout(left, try_once(context, slot)).await;
        let why = match tried {
            Ok(Ok(())) => {
                context.note_reachable(true).await;
                return JobResult::done();
            }
            Ok(Err(Trial::Hopeless(why))) => return JobResult::Failed(why),
            Ok(Err(Trial::NotYet(why))) => Some(why),
            Err(_) => None,
        };
        if why.is_some() && why != last_noted {
            let text = why.as_ref().map(|why| format!("not ready yet: {why}"));
            context.log.note(text.unwrap_or_default()).await;
            last_noted.clone_from(&why);
        }
        let left = longest.saturating_sub(begun.elapsed());
        if left.is_zero() {
            context.note_reachable(false).await;
            let last = why.map_or_else(|| "it did not answer".to_owned(), |why| why.to_string());
            let text = format!("it was not ready in time: {last}");
            return JobResult::Failed(trouble_text(text));
        }
        // What is waited for is in another machine, which tells nobody when it is there.
        tokio::time::sleep(pause.min(left)).await;
        pause = next_pause(pause, settings.probe_longest);
    }
}

fn next_pause(pause: Duration, longest: Duration) -> Duration {
    pause.saturating_mul(2).min(longest)
}

/// Why a trial failed.
enum Trial {
    /// The next one may do better.
    NotYet(Why),
    /// None will.
    Hopeless(Why),
}

async fn try_once(context: &JobContext, slot: &Slot) -> Result<(), Trial> {
    let record = context.record().map_err(Trial::Hopeless)?;
    if record.state().is_ending() {
        let text = format!("machine {} is gone before it answered", record.id);
        return Err(Trial::Hopeless(trouble_text(text)));
    }
    // An address may come late: until there is one, there is no executor.
    let executor = context.reach(slot, &record).await;
    let executor = executor.map_err(|error| Trial::NotYet(trouble(&error)))?;
    executor.probe().await.map_err(|error| judge(&error))
}

fn judge(error: &ExecutorError) -> Trial {
    let why = trouble(error);
    match error.class {
        FailureClass::Unsupported => Trial::Hopeless(why),
        // Also a refusal: a machine that boots refuses those whom it knows a moment later.
        _ => Trial::NotYet(why),
    }
}

impl JobContext {
    pub(super) async fn note_reachable(&self, reachable: bool) {
        if let Some(machine) = &self.machine {
            self.shared.machines.set_reachable(machine, reachable).await;
        }
    }
}
