//! Usage, events and logs, as they come.

use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_api::common::v2::ErrorInfo;
use muster_api::domain::{InstanceFilter, NodeId};
use muster_control_api::v1;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;
use tonic::Status;

use super::{Answers, ControlServer, invalid, time};
use crate::history::{Newest, loss};
use crate::operations::{LogPart, LogRequest, LogSource};
use crate::state::Cursor;
use crate::view::UnitView;

/// Bytes of logs in one message.
const LOG_CHUNK: usize = 256 * 1024;

fn ending() -> Status {
    Status::unavailable("the Communication Manager is about to end")
}

struct UsageFollower {
    view: UnitView,
    cursor: Cursor,
    page: usize,
    period: Duration,
    /// Nothing was told yet.
    first: bool,
    revisions: watch::Receiver<u64>,
    _permit: OwnedSemaphorePermit,
}

impl UsageFollower {
    async fn next(&mut self) -> Result<v1::UsageSnapshot, Status> {
        loop {
            self.revisions.mark_unchanged();
            let (view, cursor) = (&self.view, &mut self.cursor);
            let turn = view.read(|state| state.usage_turn(cursor, self.page))?;
            if turn.more {
                self.revisions.mark_changed();
            }
            let is_empty = turn.snapshot == v1::UsageSnapshot::default();
            if !is_empty || self.first {
                self.first = false;
                return Ok(turn.snapshot);
            }
            // Measurements come by the node; nobody looks at a screen more often than this.
            sleep(self.period).await;
            self.revisions.changed().await.map_err(|_| ending())?;
        }
    }
}

struct EventReader {
    view: UnitView,
    /// Up to here, events have been told.
    number: u64,
    /// Up to here they were there at the beginning.
    at_start: u64,
    from: Option<SystemTime>,
    follow: bool,
    page: usize,
    newest: watch::Receiver<Newest>,
    _permit: OwnedSemaphorePermit,
}

impl EventReader {
    /// None at the end.
    async fn next(&mut self) -> Result<Option<Vec<v1::Event>>, Status> {
        loop {
            let newest = self.newest.borrow_and_update().event;
            let history = self.view.history();
            let found = history
                .after::<v1::Event>(self.number, self.from, self.page)
                .await?;
            let mut events = Vec::with_capacity(found.len());
            // Without a time to begin at, numbers follow each other, unless the oldest had to go.
            let next = self.number + 1;
            if self.from.is_none()
                && self.number > 0
                && let Some(first) = found.first().filter(|first| first.number > next)
            {
                events.push(loss(first.number - next, "they were read too slowly"));
            }
            match found.last() {
                Some(last) => self.number = last.number,
                None => {
                    self.number = newest.max(self.number);
                    self.from = None;
                }
            }
            events.extend(found.into_iter().map(|event| event.value));
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if !self.follow && self.number >= self.at_start {
                return Ok(None);
            }
            self.newest.changed().await.map_err(|_| ending())?;
        }
    }
}

fn chunks(part: LogPart) -> impl Iterator<Item = v1::LogChunk> {
    let LogPart {
        node,
        data,
        status,
        error,
    } = part;
    let pieces: Vec<Vec<u8>> = match data.len() {
        0..=LOG_CHUNK => vec![data],
        _ => data.chunks(LOG_CHUNK).map(<[u8]>::to_vec).collect(),
    };
    let last = pieces.len() - 1;
    let mut error = error.map(ErrorInfo::from);
    pieces.into_iter().enumerate().map(move |(number, data)| {
        let is_last = number == last;
        v1::LogChunk {
            node_id: node.to_string(),
            data,
            status: if is_last { status.as_str() } else { "ok" }.to_owned(),
            error: if is_last { error.take() } else { None },
        }
    })
}

impl ControlServer {
    pub(super) fn usage(&self) -> Result<Answers<v1::UsageSnapshot>, Status> {
        let permit = self.stream_permit()?;
        let view = self.parts.view.clone();
        let follower = UsageFollower {
            cursor: view.read(|state| state.begin()),
            revisions: view.revisions(),
            view,
            page: self.limits.page,
            period: self.limits.usage_period,
            first: true,
            _permit: permit,
        };
        let turns = stream::try_unfold(follower, |mut follower| async {
            let snapshot = follower.next().await?;
            Ok(Some((snapshot, follower)))
        });
        Ok(turns.boxed())
    }

    pub(super) fn events(
        &self,
        request: v1::ReadEventsRequest,
    ) -> Result<Answers<v1::Event>, Status> {
        let from = time("from", request.from)?.map(SystemTime::from);
        let permit = self.stream_permit()?;
        let view = self.parts.view.clone();
        let newest = view.history().newest();
        let at_start = newest.borrow().event;
        let reader = EventReader {
            number: 0,
            at_start,
            from,
            follow: request.follow,
            page: self.limits.page,
            newest,
            view,
            _permit: permit,
        };
        let turns = stream::try_unfold(reader, |mut reader| async {
            let events = reader.next().await?;
            Ok::<_, Status>(events.map(|it| (stream::iter(it.into_iter().map(Ok)), reader)))
        });
        Ok(turns.try_flatten().boxed())
    }

    pub(super) async fn logs(
        &self,
        request: v1::ReadLogsRequest,
    ) -> Result<Answers<v1::LogChunk>, Status> {
        let filter = request.filter.map(InstanceFilter::try_from);
        let filter = filter.transpose().map_err(invalid)?;
        let source = match (filter, request.crash) {
            (None, false) => LogSource::System,
            (Some(filter), false) => LogSource::Instances(filter),
            (filter, true) => LogSource::Crashes(filter.unwrap_or_default()),
        };
        let nodes = request.node_ids.iter().map(|id| id.parse::<NodeId>());
        let request = LogRequest {
            source,
            nodes: nodes.collect::<Result<_, _>>().map_err(invalid)?,
            from: time("from", request.from)?,
            till: time("till", request.till)?,
            follow: request.follow,
        };
        let permit = self.stream_permit()?;
        let parts = self.parts.operations.read_logs(request).await?;
        let parts = parts.map(move |part| {
            let _held_until_the_end = &permit;
            part.map(|part| stream::iter(chunks(part).map(Ok)))
                .map_err(Status::from)
        });
        Ok(parts.try_flatten().boxed())
    }
}
