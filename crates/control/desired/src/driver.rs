//! The one task: owns the machine, writes down what it decides, then does it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::{AosCode, AosError, NodeId};
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::database;
use crate::document::{DesiredStatus, Item};
use crate::fault::{
    BEGUN, CONFIGURED, DECIDED, DOWNLOADED, PLANNED, RETAINED, SENT, WRITTEN, hit_step,
};
use crate::limits::Limits;
use crate::machine::{
    Accepted, Action, Change, Event, FlightId, Machine, Origin, RollbackError, Turn, UpdateId,
    UpdateStep, Version, Wish,
};
use crate::progress::{Bytes, Progress};
use crate::seams::{Balancer, DownloadMeter, Downloads, Nodes, Question, Reports};

/// How long a write that failed is waited with: the disk may have space again.
const WRITE_RETRY: Duration = Duration::from_secs(5);
/// At most one part in so many of the time goes into telling how everything is.
const REPORT_SHARE: u32 = 20;
/// How many signs of life of downloads wait; what is not taken is merged by the meter.
const METERS: usize = 16;

/// What updates are put together from.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The database, opened with [`SCHEMA`](crate::SCHEMA).
    pub store: Store,
    /// Gets items.
    pub downloads: Arc<dyn Downloads>,
    /// Places instances.
    pub balancer: Arc<dyn Balancer>,
    /// Runs them.
    pub nodes: Arc<dyn Nodes>,
    /// Tells how it goes.
    pub reports: Arc<dyn Reports>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Apply(Wish, oneshot::Sender<Accepted>),
    Rollback(
        Option<UpdateId>,
        SystemTime,
        oneshot::Sender<Result<Accepted, RollbackError>>,
    ),
    Earlier(
        Option<UpdateId>,
        oneshot::Sender<Result<Arc<Version>, RollbackError>>,
    ),
    Versions(oneshot::Sender<Vec<Arc<Version>>>),
    /// What is wanted, and what the balancer would be asked.
    Preview(
        Arc<DesiredStatus>,
        oneshot::Sender<(Option<Arc<Version>>, Question)>,
    ),
    Event(Event),
}

pub(crate) struct Driver {
    parts: Parts,
    limits: Limits,
    machine: Machine,
    started: Instant,
    actions: JoinSet<Event>,
    flights: BTreeMap<FlightId, AbortHandle>,
    publisher: watch::Sender<Arc<Progress>>,
    published: Option<Instant>,
    /// What it cost to tell how everything is. With many instances it is told less often.
    report_cost: Duration,
    /// Something has changed that was not told yet.
    has_news: bool,
    last_step: Option<UpdateStep>,
}

impl Driver {
    pub(crate) fn new(
        parts: Parts,
        limits: Limits,
        machine: Machine,
        publisher: watch::Sender<Arc<Progress>>,
    ) -> Self {
        Self {
            parts,
            limits,
            machine,
            started: Instant::now(),
            actions: JoinSet::new(),
            flights: BTreeMap::new(),
            publisher,
            published: None,
            report_cost: Duration::ZERO,
            has_news: true,
            last_step: None,
        }
    }

    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Command>, first: Turn) {
        let (meters, mut signs) = mpsc::channel(METERS);
        self.carry_out(first, &meters).await;
        loop {
            self.publish(false);
            let wake = self.wake();
            let event = tokio::select! {
                command = inbox.recv() => match command {
                    Some(Command::Event(event)) => event,
                    Some(command) => {
                        self.answer(command, &meters).await;
                        continue;
                    }
                    None => break,
                },
                Some(done) = self.actions.join_next() => match done {
                    Ok(event) => event,
                    // Its end will never be told: better to begin anew than to wait for it for ever.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // Only downloads are ended from outside, and nobody waits for those.
                    Err(_) => continue,
                },
                Some(sign) = signs.recv() => sign,
                () = tokio::time::sleep_until(wake) => Event::Tick,
            };
            if let Event::Downloaded { flight, .. } = &event {
                self.flights.remove(flight);
            }
            let is_tick = matches!(event, Event::Tick);
            let turn = self.machine.step(event, self.started.elapsed());
            self.has_news |= !is_tick || !turn.changes.is_empty();
            self.carry_out(turn, &meters).await;
        }
        self.publish(true);
    }

    /// The next deadline of the machine, or of what is to be told.
    fn wake(&self) -> Instant {
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        let deadline = self.machine.deadline();
        let machine = deadline.map_or(far, |at| self.started + at);
        match self.published {
            Some(published) if self.has_news => machine.min(published + self.report_period()),
            _ => machine,
        }
    }

    async fn answer(&mut self, command: Command, meters: &mpsc::Sender<Event>) {
        // Whoever asked may have gone; what was accepted stays accepted.
        match command {
            Command::Event(_) => {}
            Command::Apply(wish, answer) => {
                let accepted = self.accept(wish, meters).await;
                let _ = answer.send(accepted);
            }
            Command::Rollback(to, at, answer) => {
                let accepted = match self.machine.earlier(to).cloned() {
                    Ok(earlier) => {
                        let wish = Wish {
                            desired: Arc::clone(&earlier.desired),
                            origin: Origin::Operator,
                            name: earlier.name.clone(),
                            at,
                            places: earlier.places.clone(),
                        };
                        Ok(self.accept(wish, meters).await)
                    }
                    Err(error) => Err(error),
                };
                let _ = answer.send(accepted);
            }
            Command::Earlier(to, answer) => {
                let _ = answer.send(self.machine.earlier(to).cloned());
            }
            Command::Preview(desired, answer) => {
                let wanted = self.machine.versions().next_back().cloned();
                let _ = answer.send((wanted, self.machine.question(desired)));
            }
            Command::Versions(answer) => {
                let _ = answer.send(self.machine.versions().rev().cloned().collect());
            }
        }
    }

    async fn accept(&mut self, wish: Wish, meters: &mpsc::Sender<Event>) -> Accepted {
        let (accepted, turn) = self.machine.accept(wish, self.started.elapsed());
        self.has_news = true;
        self.carry_out(turn, meters).await;
        // Whoever is told of an update asks for its progress next, and must find it.
        self.publish(true);
        accepted
    }

    async fn carry_out(&mut self, turn: Turn, meters: &mpsc::Sender<Event>) {
        muster_fault::hit(DECIDED);
        self.write_down(&turn.changes).await;
        muster_fault::hit(WRITTEN);
        for change in &turn.changes {
            if let Change::State(state) = change
                && self.last_step != Some(state.step)
            {
                tracing::info!(update = state.update.0, step = %state.step, "update goes on");
                self.last_step = Some(state.step);
                hit_step(state.step);
            }
        }
        for action in turn.actions {
            self.begin(action, meters);
        }
        muster_fault::hit(BEGUN);
    }

    /// What is not on disk is not done: without the disk updates stand still, and say so, until the disk is back.
    async fn write_down(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        while let Err(error) = database::save(&self.parts.store, changes.to_vec()).await {
            tracing::error!(error = %ErrorChain(&error), retry_in = ?WRITE_RETRY, "cannot write down what was decided");
            if matches!(error, StoreError::Closed { .. }) {
                return;
            }
            tokio::time::sleep(WRITE_RETRY).await;
        }
    }

    fn begin(&mut self, action: Action, meters: &mpsc::Sender<Event>) {
        let parts = self.parts.clone();
        let answer = self.limits.answer;
        match action {
            Action::Download {
                flight,
                item,
                desired,
            } => {
                let work = download(parts.downloads, flight, item, desired, meters.clone());
                let handle = self.actions.spawn(work);
                self.flights.insert(flight, handle);
            }
            Action::Cancel(flight) => {
                if let Some(handle) = self.flights.remove(&flight) {
                    handle.abort();
                }
            }
            Action::Configure { desired, .. } => {
                self.actions.spawn(async move {
                    let result = within(answer, parts.nodes.configure(desired)).await;
                    muster_fault::hit(CONFIGURED);
                    Event::Configured(result)
                });
            }
            Action::Plan(question) => {
                self.actions.spawn(async move {
                    let result = within(answer, parts.balancer.plan(question)).await;
                    muster_fault::hit(PLANNED);
                    Event::Planned(result)
                });
            }
            Action::Send {
                node, share, stop, ..
            } => {
                self.actions.spawn(async move {
                    let work = parts.nodes.update(NodeId::clone(&node), share, stop);
                    let result = within(answer, work).await;
                    muster_fault::hit(SENT);
                    Event::Sent { node, result }
                });
            }
            Action::Retain { items, .. } => {
                self.actions.spawn(async move {
                    let result = within(answer, parts.downloads.retain(items)).await;
                    if let Err(error) = result {
                        tracing::warn!(%error, "items that are not needed any more could not be removed");
                    }
                    muster_fault::hit(RETAINED);
                    Event::Retained
                });
            }
            Action::Finished => {
                self.has_news = true;
                self.publish(true);
                self.parts.reports.finished(&self.publisher.borrow());
            }
        }
    }

    fn report_period(&self) -> Duration {
        let by_cost = self.report_cost * REPORT_SHARE;
        self.limits.report_period.max(by_cost)
    }

    /// Tells what is new, but not more often than is wanted.
    fn publish(&mut self, at_once: bool) {
        let is_due = (self.published).is_none_or(|it| it.elapsed() >= self.report_period());
        if !self.has_news || !(at_once || is_due) {
            return;
        }
        self.has_news = false;
        let begun = Instant::now();
        let progress = Arc::new(self.machine.snapshot());
        self.publisher.send_replace(Arc::clone(&progress));
        self.parts.reports.changed(&progress);
        self.published = Some(Instant::now());
        self.report_cost = begun.elapsed();
    }
}

/// What does not answer in time has failed.
async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, AosError>>,
) -> Result<T, AosError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("there was no answer for {} ms", limit.as_millis());
        Err(AosError::new(AosCode::Timeout, message))
    })
}

/// A download, with its signs of life on the way.
async fn download(
    downloads: Arc<dyn Downloads>,
    flight: FlightId,
    item: Item,
    desired: Arc<DesiredStatus>,
    meters: mpsc::Sender<Event>,
) -> Event {
    let (meter, mut level) = watch::channel(Bytes::default());
    let work = downloads.download(item, desired, DownloadMeter(meter));
    let watch = async {
        while level.changed().await.is_ok() {
            let bytes = *level.borrow_and_update();
            let sign = Event::DownloadProgress { flight, bytes };
            if meters.send(sign).await.is_err() {
                break;
            }
        }
        // The meter may go before the download ends.
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = work => result,
        () = watch => Err(AosError::new(AosCode::Cancelled, "updates have ended")),
    };
    muster_fault::hit(DOWNLOADED);
    Event::Downloaded { flight, result }
}
