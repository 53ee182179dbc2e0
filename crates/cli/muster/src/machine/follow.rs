//! Following a run until it is over, also over deaths of the manager: it goes on with runs when it comes back, and so does this.

use std::time::Duration;

use muster_machine_api::v1;
use tokio::time::Instant;
use tonic::Streaming;

use super::client::Manager;
use crate::call::{CallError, Peer};

/// How long is waited before a manager that went away is asked again, at first and at most.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// For how long it may be away before that is an error.
const PATIENCE: Duration = Duration::from_secs(120);

/// How patient to be with a manager that does not answer.
#[derive(Debug)]
struct Patience {
    /// For how long.
    limit: Duration,
    wait: Duration,
    /// Since when it has not answered.
    since: Option<Instant>,
}

impl Patience {
    const fn new(limit: Duration) -> Self {
        Self {
            limit,
            wait: FIRST,
            since: None,
        }
    }

    /// Waits before another attempt; gives the error back if there is to be none.
    async fn endure(&mut self, error: CallError) -> Result<(), CallError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_on_the_way() || since.elapsed() >= self.limit {
            return Err(error);
        }
        tokio::time::sleep(self.wait).await;
        self.wait = (2 * self.wait).min(LONGEST);
        Ok(())
    }
}

/// Makes a call that may be made again, until the manager answers.
pub(super) async fn persist<T>(
    call: impl AsyncFnMut() -> Result<T, CallError>,
) -> Result<T, CallError> {
    persist_with(Patience::new(PATIENCE), call).await
}

async fn persist_with<T>(
    mut patience: Patience,
    mut call: impl AsyncFnMut() -> Result<T, CallError>,
) -> Result<T, CallError> {
    loop {
        match call().await {
            Err(error) => patience.endure(error).await?,
            answer => return answer,
        }
    }
}

/// What a run's commands write, from its beginning to its end.
#[derive(Debug)]
pub(super) struct RunLog<'a> {
    manager: &'a Manager,
    run: String,
    /// Where to go on.
    from: u64,
    stream: Option<Streaming<v1::RunLog>>,
    patience: Patience,
}

const READ: &str = "ReadRunLogs";

impl<'a> RunLog<'a> {
    pub(super) fn new(manager: &'a Manager, run: &str) -> Self {
        Self {
            manager,
            run: run.to_owned(),
            from: 0,
            stream: None,
            patience: Patience::new(PATIENCE),
        }
    }

    /// The next piece; nothing when the run is over. A call that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<v1::RunLog>, CallError> {
        loop {
            match self.try_next().await {
                Ok(piece) => return Ok(piece),
                Err(error) => {
                    self.stream = None;
                    self.patience.endure(error).await?;
                }
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<v1::RunLog>, CallError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(read(self.manager, &self.run, self.from).await?),
        };
        let piece = stream.message().await;
        if let Some(piece) = piece.map_err(|status| Peer::NodeManager.failed(READ, status))? {
            self.from = piece.next;
            self.patience = Patience::new(PATIENCE);
            return Ok(Some(piece));
        }
        // A manager that ends, ends its answers too.
        match show(self.manager, &self.run).await?.state.as_str() {
            "running" => Err(Peer::NodeManager.ended(READ)),
            _ => Ok(None),
        }
    }
}

async fn read(manager: &Manager, run: &str, from: u64) -> Result<Streaming<v1::RunLog>, CallError> {
    let request = v1::ReadRunLogsRequest {
        run: run.to_owned(),
        step: String::new(),
        follow: true,
        from,
    };
    let log = manager.ask_runs(READ, async |mut it| it.read_run_logs(request).await);
    log.await
}

/// How a run is.
pub(super) async fn show(manager: &Manager, run: &str) -> Result<v1::Run, CallError> {
    let request = v1::GetRunRequest {
        run: run.to_owned(),
    };
    let found = manager.ask_runs("GetRun", async |mut it| it.get_run(request).await);
    found.await
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[tokio::test]
    async fn a_manager_that_is_away_is_waited_for_but_not_for_ever() {
        let away = || Peer::NodeManager.failed("GetRun", Status::unavailable("away"));
        let mut asked = 0;
        let found = persist(async || {
            asked += 1;
            match asked {
                3 => Ok(7),
                _ => Err(away()),
            }
        });
        assert_eq!(found.await.unwrap(), 7);
        let short = Duration::from_millis(20);
        let never: Result<(), _> = persist_with(Patience::new(short), async || Err(away())).await;
        assert!(never.is_err());
        // What it refuses is not asked again.
        let mut asked = 0;
        let refused: Result<(), _> = persist(async || {
            asked += 1;
            Err(Peer::NodeManager.failed("GetRun", Status::not_found("no")))
        })
        .await;
        assert!(refused.is_err());
        assert_eq!(asked, 1);
    }
}
