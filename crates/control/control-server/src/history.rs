//! What happened: events and alerts, kept over restarts, bounded by count and age.

mod database;
#[cfg(test)]
mod tests;
mod writer;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use muster_control_api::v1;
use muster_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

pub use self::database::SCHEMA;
pub(crate) use self::database::{Kept, Numbered};
pub(crate) use self::writer::loss;
use self::writer::{Entry, Writer};
use crate::facts::Note;
use crate::limits::HistoryLimits;
use crate::wire;

/// Why what is remembered cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The database failed.
    #[error("cannot read what happened")]
    Read(#[source] StoreError),
}

/// The newest numbers, for whoever follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) event: u64,
    pub(crate) alert: u64,
    /// Alerts of the last day.
    pub(crate) alerts_of_day: u64,
}

/// The handle. Cheap to clone; its task ends when every clone is gone.
#[derive(Debug, Clone)]
pub struct History {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    limits: HistoryLimits,
    entries: mpsc::Sender<Entry>,
    newest: watch::Receiver<Newest>,
    lost: Arc<AtomicU64>,
}

impl History {
    /// Goes on with what is in the database, which has [`SCHEMA`]. The future is the task that writes.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn open(
        store: Store,
        limits: HistoryLimits,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), HistoryError> {
        let (entries, queue) = mpsc::channel(limits.queue);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer::start(store.clone(), limits, Arc::clone(&lost)).await?;
        let shared = Shared {
            store,
            limits,
            entries,
            newest: writer.newest(),
            lost,
        };
        let history = Self {
            shared: Arc::new(shared),
        };
        Ok((history, writer.run(queue)))
    }

    /// Remembers that this happened now.
    pub fn note(&self, note: Note) {
        self.put(Entry::Event(v1::Event {
            timestamp: Some(SystemTime::now().into()),
            kind: note.kind.as_str().to_owned(),
            name: self.cut(note.name),
            message: self.cut(note.message),
            warning: note.warning,
        }));
    }

    /// Remembers an alert.
    pub(crate) fn alert(&self, mut alert: v1::Alert) {
        alert.subject = self.cut(alert.subject);
        alert.message = self.cut(alert.message);
        self.put(Entry::Alert(alert));
    }

    /// Waits until everything that was given before is on disk, or known to be lost.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.shared.entries.send(Entry::Flush(done)).await.is_ok() {
            // A task that was dropped has nothing more to write.
            let _ = wait.await;
        }
    }

    fn put(&self, entry: Entry) {
        // Whoever tells does not wait; the writer tells how many were lost.
        if self.shared.entries.try_send(entry).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cut(&self, text: String) -> String {
        wire::cut(text, self.shared.limits.text_bytes)
    }

    pub(crate) fn newest(&self) -> watch::Receiver<Newest> {
        self.shared.newest.clone()
    }

    pub(crate) fn alerts_of_day(&self) -> u64 {
        self.shared.newest.borrow().alerts_of_day
    }

    /// The next after a number, not stamped before `from`.
    pub(crate) async fn after<T: Kept>(
        &self,
        number: u64,
        from: Option<SystemTime>,
        limit: usize,
    ) -> Result<Vec<Numbered<T>>, HistoryError> {
        let read = self
            .shared
            .store
            .read(move |db| database::after::<T>(db, number, from, limit));
        read.await.map_err(HistoryError::Read)
    }

    /// The newest, the oldest of them first.
    pub(crate) async fn last<T: Kept>(
        &self,
        from: Option<SystemTime>,
        limit: usize,
    ) -> Result<Vec<Numbered<T>>, HistoryError> {
        let read = self
            .shared
            .store
            .read(move |db| database::last::<T>(db, from, limit));
        read.await.map_err(HistoryError::Read)
    }
}
