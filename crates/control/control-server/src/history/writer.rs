//! The one task that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use muster_control_api::v1;
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};
use tracing::error;

use super::database::{count_since, insert, newest, prune};
use super::{HistoryError, Newest};
use crate::facts::NoteKind;
use crate::limits::HistoryLimits;

/// Entries that are written together.
const BATCH: usize = 256;
/// How often what became too old goes while nothing happens.
const TIDY: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub(super) enum Entry {
    Event(v1::Event),
    Alert(v1::Alert),
    /// Answered when everything before it is done with.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Writer {
    store: Store,
    limits: HistoryLimits,
    newest: watch::Sender<Newest>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    pub(super) async fn start(
        store: Store,
        limits: HistoryLimits,
        lost: Arc<AtomicU64>,
    ) -> Result<Self, HistoryError> {
        let day_ago = SystemTime::now() - DAY;
        let found = store.read(move |db| {
            Ok(Newest {
                event: newest::<v1::Event>(db)?,
                alert: newest::<v1::Alert>(db)?,
                alerts_of_day: count_since::<v1::Alert>(db, day_ago)?,
            })
        });
        let found = found.await.map_err(HistoryError::Read)?;
        Ok(Self {
            store,
            limits,
            newest: watch::Sender::new(found),
            lost,
        })
    }

    pub(super) fn newest(&self) -> watch::Receiver<Newest> {
        self.newest.subscribe()
    }

    pub(super) async fn run(self, mut queue: mpsc::Receiver<Entry>) {
        let mut tidy = interval(TIDY);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                received = queue.recv_many(&mut batch, BATCH) => if received == 0 { return },
                _ = tidy.tick() => {}
            }
            self.write(std::mem::take(&mut batch)).await;
        }
    }

    async fn write(&self, batch: Vec<Entry>) {
        let (mut events, mut alerts, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for entry in batch {
            match entry {
                Entry::Event(event) => events.push(event),
                Entry::Alert(alert) => alerts.push(alert),
                Entry::Flush(done) => waiting.push(done),
            }
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            events.push(loss(
                lost,
                "more happened at once than could be written down",
            ));
        }
        let count = u64::try_from(events.len() + alerts.len()).unwrap_or(u64::MAX);
        match self.store_all(events, alerts).await {
            Ok(newest) => drop(self.newest.send_if_modified(|old| {
                let differs = *old != newest;
                *old = newest;
                differs
            })),
            Err(failed) => {
                error!(count, error = %ErrorChain(&failed), "events and alerts are lost");
                self.lost.fetch_add(count.max(lost), Ordering::Relaxed);
            }
        }
        for done in waiting {
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }

    async fn store_all(
        &self,
        events: Vec<v1::Event>,
        alerts: Vec<v1::Alert>,
    ) -> Result<Newest, StoreError> {
        let (limits, mut newest) = (self.limits, *self.newest.borrow());
        let now = SystemTime::now();
        let write = self.store.write(move |db| {
            newest.event = insert(db, newest.event, now, &events)?;
            newest.alert = insert(db, newest.alert, now, &alerts)?;
            let age = limits.age;
            prune::<v1::Event>(db, newest.event, limits.events, now, age)?;
            prune::<v1::Alert>(db, newest.alert, limits.alerts, now, age)?;
            newest.alerts_of_day = count_since::<v1::Alert>(db, now - DAY)?;
            Ok(newest)
        });
        write.await
    }
}

/// An event about events that nobody can read.
pub(crate) fn loss(count: u64, why: &str) -> v1::Event {
    v1::Event {
        timestamp: Some(SystemTime::now().into()),
        kind: NoteKind::History.as_str().to_owned(),
        name: String::new(),
        message: format!("{count} events or alerts are missing here: {why}"),
        warning: true,
    }
}
