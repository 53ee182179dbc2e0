//! The daemon's long-running tasks and their common end.

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{ErrorChain, Heartbeat, Notifier, Shutdown, WatchdogPeriod, run_watchdog};

type TaskResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Named tasks that live until the shutdown.
#[derive(Debug)]
pub struct TaskSet {
    stop: CancellationToken,
    tasks: JoinSet<TaskResult>,
    names: HashMap<Id, String>,
}

/// How a daemon's tasks ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Tasks that failed or panicked.
    pub failed: Vec<String>,
    /// Tasks that did not end within the grace period, and were dropped.
    pub unfinished: Vec<String>,
}

impl RunOutcome {
    /// 0 if all tasks ended well and in time, else 1.
    pub fn exit_code(&self) -> ExitCode {
        let well = self.failed.is_empty() && self.unfinished.is_empty();
        if well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl TaskSet {
    /// No tasks yet.
    pub fn new(shutdown: &Shutdown) -> Self {
        Self {
            stop: shutdown.token(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Starts a task. It must end soon after the shutdown's token is cancelled; if it fails before,
    /// the shutdown begins.
    pub fn spawn<E: Into<Box<dyn Error + Send + Sync>>>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self
            .tasks
            .spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name.into());
    }

    /// Starts a task that is dropped when the shutdown begins, wherever it is: for work whose lasting steps are on disk.
    pub fn spawn_until_shutdown(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        self.spawn(name, async move {
            stop.run_until_cancelled(task).await;
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Pings the service manager's watchdog, if it asks for that, while this runtime turns.
    pub fn watch_over(&mut self, notifier: &Notifier) {
        let Some(period) = WatchdogPeriod::from_environment() else {
            return;
        };
        let heartbeat = Heartbeat::new();
        let beat = heartbeat.clone();
        self.spawn_until_shutdown("heartbeat", async move {
            let mut ticks = tokio::time::interval(period.touch_every());
            loop {
                ticks.tick().await;
                beat.touch();
            }
        });
        let pings = run_watchdog(notifier.clone(), period, heartbeat, self.stop.clone());
        self.spawn_until_shutdown("watchdog", pings);
    }

    /// Runs until the shutdown begins or all tasks have ended, tells the service manager that we stop,
    /// and waits for the tasks, at most for `grace`.
    pub async fn run_until_shutdown(mut self, notifier: &Notifier, grace: Duration) -> RunOutcome {
        let mut outcome = RunOutcome::default();
        let stop = self.stop.clone();
        while let Some(Some(ended)) = stop
            .run_until_cancelled(self.tasks.join_next_with_id())
            .await
        {
            if !self.note(ended, &mut outcome) {
                stop.cancel();
            }
        }
        stop.cancel();
        notifier.stopping();
        let deadline = Instant::now() + grace;
        while let Ok(Some(ended)) = timeout_at(deadline, self.tasks.join_next_with_id()).await {
            self.note(ended, &mut outcome);
        }
        outcome.unfinished = self.names.into_values().collect();
        outcome.unfinished.sort();
        for name in &outcome.unfinished {
            tracing::warn!(name, ?grace, "the task did not end in time");
        }
        outcome
    }

    /// Says whether the task ended well.
    fn note(
        &mut self,
        ended: Result<(Id, TaskResult), JoinError>,
        outcome: &mut RunOutcome,
    ) -> bool {
        let (id, error) = match ended {
            Ok((id, Ok(()))) => {
                self.names.remove(&id);
                return true;
            }
            Ok((id, Err(error))) => (id, ErrorChain(&*error).to_string()),
            Err(error) => (error.id(), error.to_string()),
        };
        let name = self.names.remove(&id).unwrap_or_default();
        tracing::error!(name, error, "the task failed");
        outcome.failed.push(name);
        false
    }
}
