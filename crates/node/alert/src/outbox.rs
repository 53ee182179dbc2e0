//! Alerts on their way to the controller.

use std::sync::Arc;

use muster_api::domain::Alert;
use muster_store::StoreError;
use muster_store::spool::{Entry, EntryId, Spool};
use tokio::sync::{Notify, watch};

use crate::database::decode;
use crate::faults;

/// An alert's place in the order in which alerts are told. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertId(u64);

impl AlertId {
    /// Before every alert.
    pub const START: Self = Self(0);

    /// The id with a number that came from [`number`](Self::number).
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// A number that grows with each alert; the first is at least 1.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    fn of(id: EntryId) -> Self {
        Self(u64::try_from(id.number()).unwrap_or(0))
    }

    fn entry(self) -> EntryId {
        EntryId::from_number(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
}

/// Why alerts could not be read or forgotten.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Alerts cannot be read.
    #[error("cannot read the alerts after number {}", after.number())]
    Read {
        /// After which.
        after: AlertId,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// Delivered alerts cannot be forgotten, and will be delivered again.
    #[error("cannot forget the delivered alerts up to number {}", up_to.number())]
    Confirm {
        /// Up to which.
        up_to: AlertId,
        /// Why.
        #[source]
        source: StoreError,
    },
}

/// What has to reach the controller. Whoever delivers reads, sends and confirms; until then an alert stays, over restarts
/// and power cuts.
#[derive(Debug, Clone)]
pub struct Outbox {
    spool: Spool,
    news: watch::Receiver<AlertId>,
    room: Arc<Notify>,
}

impl Outbox {
    pub(crate) fn new(spool: Spool, news: watch::Receiver<AlertId>, room: Arc<Notify>) -> Self {
        Self { spool, news, room }
    }

    /// The newest alert that was kept by this process. Changes when there is something to deliver; what is there at the
    /// start is delivered without a change.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<AlertId> {
        self.news.clone()
    }

    /// The oldest alerts after one, in order, at most `limit`. None: all are delivered.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_batch(
        &self,
        mut after: AlertId,
        limit: usize,
    ) -> Result<Vec<(AlertId, Alert)>, OutboxError> {
        loop {
            let entries = self.spool.after(after.entry(), limit).await;
            match readable(entries.map_err(|source| OutboxError::Read { after, source })?) {
                Readable::Alerts(alerts) => return Ok(alerts),
                Readable::None { last } => after = last,
            }
        }
    }

    /// [`next_batch`](Self::next_batch) for a thread that may wait.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next_batch_blocking(
        &self,
        mut after: AlertId,
        limit: usize,
    ) -> Result<Vec<(AlertId, Alert)>, OutboxError> {
        loop {
            let entries = self.spool.after(after.entry(), limit).wait();
            match readable(entries.map_err(|source| OutboxError::Read { after, source })?) {
                Readable::Alerts(alerts) => return Ok(alerts),
                Readable::None { last } => after = last,
            }
        }
    }

    /// Everything up to this alert has arrived and is forgotten.
    ///
    /// # Errors
    /// When the database fails; the alerts are then delivered again.
    pub async fn confirm(&self, up_to: AlertId) -> Result<(), OutboxError> {
        let result = self.spool.confirm(up_to.entry()).await;
        self.confirmed(up_to, result.map(drop))
    }

    /// [`confirm`](Self::confirm) for a thread that may wait.
    ///
    /// # Errors
    /// When the database fails; the alerts are then delivered again.
    pub fn confirm_blocking(&self, up_to: AlertId) -> Result<(), OutboxError> {
        let result = self.spool.confirm(up_to.entry()).wait();
        self.confirmed(up_to, result.map(drop))
    }

    fn confirmed(&self, up_to: AlertId, result: Result<(), StoreError>) -> Result<(), OutboxError> {
        result.map_err(|source| OutboxError::Confirm { up_to, source })?;
        muster_fault::hit(faults::CONFIRMED);
        self.room.notify_one();
        Ok(())
    }
}

enum Readable {
    Alerts(Vec<(AlertId, Alert)>),
    /// There were entries, and none is an alert.
    None {
        last: AlertId,
    },
}

/// What is no alert is passed over, and is forgotten with the ones after it.
fn readable(entries: Vec<Entry>) -> Readable {
    let last = entries.last().map(|entry| AlertId::of(entry.id));
    let alert = |entry: Entry| {
        let alert = decode(&entry.body);
        if alert.is_none() {
            let number = entry.id.number();
            tracing::error!(number, "an alert that cannot be read is left out");
        }
        Some((AlertId::of(entry.id), alert?))
    };
    let alerts: Vec<_> = entries.into_iter().filter_map(alert).collect();
    match last {
        Some(last) if alerts.is_empty() => Readable::None { last },
        _ => Readable::Alerts(alerts),
    }
}
