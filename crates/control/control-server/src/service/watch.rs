//! Everything that there is, then every change.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_control_api::v1;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tonic::Status;
use v1::watch_event::Event;

use super::{Answers, ControlServer, invalid};
use crate::history::Newest;
use crate::state::{Cursor, FellBehind, Kinds};
use crate::view::UnitView;

impl From<FellBehind> for Status {
    fn from(FellBehind: FellBehind) -> Self {
        Self::aborted("too much has gone meanwhile to be told one by one; start watching again")
    }
}

/// What is asked for; alerts apart, since they come from the history.
fn kinds(request: &v1::WatchRequest) -> Result<(Kinds, bool), Status> {
    let all = request.kinds.is_empty();
    let mut kinds = Kinds {
        nodes: all,
        instances: all,
        items: all,
        networks: all,
        overview: all,
    };
    let mut alerts = all;
    for number in &request.kinds {
        let wanted = match v1::Kind::try_from(*number) {
            Ok(v1::Kind::Nodes) => &mut kinds.nodes,
            Ok(v1::Kind::Instances) => &mut kinds.instances,
            Ok(v1::Kind::Items) => &mut kinds.items,
            Ok(v1::Kind::Alerts) => &mut alerts,
            Ok(v1::Kind::Networks) => &mut kinds.networks,
            Ok(v1::Kind::Overview) => &mut kinds.overview,
            Ok(v1::Kind::Unspecified) | Err(_) => {
                return Err(invalid(format!("kinds: there is no kind {number}")));
            }
        };
        *wanted = true;
    }
    Ok((kinds, alerts))
}

/// One watcher: how far it has been told.
struct Watcher {
    view: UnitView,
    kinds: Kinds,
    alerts: bool,
    page: usize,
    cursor: Cursor,
    /// Up to here, alerts have been told.
    alert: u64,
    alert_at_start: u64,
    /// As the last overview had it.
    alerts_of_day: u64,
    synced: bool,
    revisions: watch::Receiver<u64>,
    newest: watch::Receiver<Newest>,
    _permit: OwnedSemaphorePermit,
}

impl Watcher {
    /// What there is to tell, at least one event.
    async fn next(&mut self) -> Result<Vec<Event>, Status> {
        loop {
            // Seen before the state is read, so that a change meanwhile wakes again.
            self.revisions.mark_unchanged();
            let newest = *self.newest.borrow_and_update();
            let events = self.look(newest).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            let gone = |_| Status::unavailable("the Communication Manager is about to end");
            tokio::select! {
                changed = self.revisions.changed() => changed.map_err(gone)?,
                changed = self.newest.changed() => changed.map_err(gone)?,
            }
        }
    }

    async fn look(&mut self, newest: Newest) -> Result<Vec<Event>, Status> {
        let mut events = Vec::new();
        if self.alerts && self.alert < newest.alert {
            let history = self.view.history();
            let found = history
                .after::<v1::Alert>(self.alert, None, self.page)
                .await?;
            self.alert = found.last().map_or(newest.alert, |alert| alert.number);
            events.extend(found.into_iter().map(|alert| Event::Alert(alert.value)));
            if self.alert < newest.alert {
                self.newest.mark_changed();
            }
        }
        let (view, cursor) = (&self.view, &mut self.cursor);
        let turn = view.read(|state| state.turn(cursor, self.kinds, self.page))?;
        events.extend(turn.events);
        if turn.more {
            self.revisions.mark_changed();
        }
        let more_alerts = self.kinds.overview && newest.alerts_of_day != self.alerts_of_day;
        if turn.overview || more_alerts && self.synced {
            self.alerts_of_day = newest.alerts_of_day;
            events.push(Event::Overview(self.view.overview()));
        }
        if !self.synced && self.cursor.is_synced() && self.alert >= self.alert_at_start {
            self.synced = true;
            events.push(Event::Synced(v1::Synced {}));
        }
        Ok(events)
    }
}

impl ControlServer {
    pub(super) fn watch_changes(
        &self,
        request: &v1::WatchRequest,
    ) -> Result<Answers<v1::WatchEvent>, Status> {
        let (kinds, alerts) = kinds(request)?;
        let permit = self.stream_permit()?;
        let view = self.parts.view.clone();
        let (revisions, newest) = (view.revisions(), view.history().newest());
        let alert_at_start = if alerts { newest.borrow().alert } else { 0 };
        let watcher = Watcher {
            cursor: view.read(|state| state.begin()),
            view,
            kinds,
            alerts,
            page: self.limits.page,
            alert: 0,
            alert_at_start,
            alerts_of_day: 0,
            synced: false,
            revisions,
            newest,
            _permit: permit,
        };
        let turns = stream::try_unfold(watcher, |mut watcher| async {
            let events = watcher.next().await?;
            let events = events
                .into_iter()
                .map(|event| Ok::<_, Status>(v1::WatchEvent { event: Some(event) }));
            Ok::<_, Status>(Some((stream::iter(events), watcher)))
        });
        Ok(turns.try_flatten().boxed())
    }
}
