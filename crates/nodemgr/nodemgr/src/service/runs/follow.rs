//! Runs as they go.

use std::collections::VecDeque;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::{Stream, stream};
use muster_machine_api::v1;
use muster_orchestrate::{Entry, LogRecord, RunEvent, RunId, Runs};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tonic::Status;

use super::{run_failed, show};
use crate::service::error;

/// So many events are read at a time.
const PAGE: u32 = 256;

struct Events {
    runs: Runs,
    run: RunId,
    after: u64,
    /// What says that there is more; nothing where nobody waits for it.
    news: Option<broadcast::Receiver<RunEvent>>,
    page: VecDeque<RunEvent>,
    over: bool,
}

/// What happened in a run; with `follow` until it is over.
pub(super) fn events(
    runs: Runs,
    run: RunId,
    after: u64,
    follow: bool,
) -> impl Stream<Item = Result<v1::RunEvent, Status>> + Send {
    // Listening begins before reading, so that nothing is missed in between.
    let news = runs.events().filter(|_| follow);
    let state = Events {
        runs,
        run,
        after,
        news,
        page: VecDeque::new(),
        over: false,
    };
    stream::try_unfold(state, |mut state| async {
        let event = state.next().await?;
        Ok(event.map(|event| (show::event(&event), state)))
    })
}

impl Events {
    async fn next(&mut self) -> Result<Option<RunEvent>, Status> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.over |= matches!(event.what, Entry::Over { .. });
                return Ok(Some(event));
            }
            let page = self.runs.events_after(Some(&self.run), self.after, PAGE);
            self.page = page.await.map_err(error::internal)?.into();
            if let Some(last) = self.page.back() {
                self.after = last.number;
                continue;
            }
            let Some(news) = self.news.as_mut().filter(|_| !self.over) else {
                return Ok(None);
            };
            match news.recv().await {
                // What it was, and what was missed, is read from the database.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}

struct Log {
    runs: Runs,
    run: RunId,
    step: Option<String>,
    from: u64,
    grew: watch::Receiver<u64>,
    /// Ends with the run; nothing where nobody waits for it, or it has ended.
    over: Option<BoxFuture<'static, ()>>,
    page: VecDeque<LogRecord>,
}

/// What a run's commands wrote, from a position on; with `follow` until it is over.
pub(super) fn log(
    runs: Runs,
    run: RunId,
    step: Option<String>,
    from: u64,
    follow: bool,
) -> impl Stream<Item = Result<v1::RunLog, Status>> + Send {
    let waiting = (runs.clone(), run.clone());
    // A run that cannot be waited for writes nothing more.
    let over = async move { drop(waiting.0.wait(&waiting.1).await) }.boxed();
    let state = Log {
        grew: runs.log_changes(),
        runs,
        run,
        step,
        from,
        over: follow.then_some(over),
        page: VecDeque::new(),
    };
    stream::try_unfold(state, |mut state| async {
        let piece = state.next().await?;
        Ok(piece.map(|piece| (piece, state)))
    })
}

impl Log {
    async fn next(&mut self) -> Result<Option<v1::RunLog>, Status> {
        loop {
            while let Some(record) = self.page.pop_front() {
                if self.step.is_none() || self.step.as_deref() == record.step.as_deref() {
                    return Ok(Some(show::log(record)));
                }
            }
            self.grew.mark_unchanged();
            let page = self.runs.log(&self.run, self.from).await;
            let page = page.map_err(run_failed)?;
            let begin = self.from.saturating_add(page.lost);
            self.from = page.next;
            let more = page.more || !page.records.is_empty();
            self.page = page.records.into();
            if page.lost > 0 {
                // Whatever is lost is lost before the first record.
                return Ok(Some(show::lost(page.lost, begin)));
            }
            if more {
                continue;
            }
            let Some(over) = &mut self.over else {
                return Ok(None);
            };
            tokio::select! {
                () = over => self.over = None,
                grew = self.grew.changed() => {
                    if grew.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}
