//! Durable messages: the owner keeps them, the link delivers them.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::{JoinError, JoinHandle};
use tracing::warn;

use crate::link::FetchRange;

/// What a spool's owner reports when it cannot read or write.
pub type SpoolError = Box<dyn StdError + Send + Sync>;

/// Durable messages in the order in which they must arrive, each under an id that grows.
///
/// Appending is the owner's business: it makes a message durable first and then calls
/// [`StreamHandle::spool_offered`](crate::StreamHandle::spool_offered). The link calls these methods
/// one at a time and outside the asynchronous workers, so they may block on a disk.
pub trait Spool: Send + Sync + 'static {
    /// The next encoded messages in ascending order of id, all ids greater than `range.after`: at
    /// most `range.messages`, together at most `range.bytes`, but at least one if there is any.
    /// Ids begin at 1. Messages must not be longer than
    /// [`LinkLimits::message_bytes`](crate::link::LinkLimits): the link passes such ones over.
    fn read(&self, range: FetchRange) -> Result<Vec<(u64, Bytes)>, SpoolError>;

    /// Everything up to this id was delivered and may be forgotten. Confirming twice is harmless.
    fn confirm(&self, up_to: u64) -> Result<(), SpoolError>;
}

pub(crate) type Batch = Result<Vec<(u64, Bytes)>, SpoolError>;

enum Done {
    Read(Batch),
    Confirmed {
        up_to: u64,
        result: Result<(), SpoolError>,
    },
}

/// Runs a spool's methods on blocking threads, one at a time. At most one read and one (the latest)
/// confirmation wait.
pub(crate) struct SpoolRunner {
    spool: Arc<dyn Spool>,
    job: Option<JoinHandle<Done>>,
    read: Option<FetchRange>,
    confirm: Option<u64>,
}

impl fmt::Debug for SpoolRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolRunner")
            .field("busy", &self.job.is_some())
            .field("read", &self.read)
            .field("confirm", &self.confirm)
            .finish_non_exhaustive()
    }
}

impl SpoolRunner {
    pub(crate) fn new(spool: Arc<dyn Spool>) -> Self {
        Self {
            spool,
            job: None,
            read: None,
            confirm: None,
        }
    }

    pub(crate) fn read(&mut self, range: FetchRange) {
        self.read = Some(range);
        self.start();
    }

    pub(crate) fn confirm(&mut self, up_to: u64) {
        self.confirm = Some(up_to);
        self.start();
    }

    /// The result of the next read. Pending while none is under way.
    pub(crate) async fn next_batch(&mut self) -> Batch {
        loop {
            let Some(job) = &mut self.job else {
                return std::future::pending().await;
            };
            let done = job.await;
            self.job = None;
            self.start();
            if let Some(batch) = report(done) {
                return batch;
            }
        }
    }

    /// Finishes the confirmations that wait; reads are no longer of interest.
    pub(crate) async fn finish(&mut self) {
        self.read = None;
        while let Some(job) = &mut self.job {
            let done = job.await;
            self.job = None;
            report(done);
            self.start();
        }
    }

    /// Confirmations first: they make the next read start in the right place.
    fn start(&mut self) {
        if self.job.is_some() {
            return;
        }
        let spool = Arc::clone(&self.spool);
        if let Some(up_to) = self.confirm.take() {
            self.job = Some(tokio::task::spawn_blocking(move || Done::Confirmed {
                up_to,
                result: spool.confirm(up_to),
            }));
        } else if let Some(range) = self.read.take() {
            self.job = Some(tokio::task::spawn_blocking(move || {
                Done::Read(spool.read(range))
            }));
        }
    }
}

fn report(done: Result<Done, JoinError>) -> Option<Batch> {
    match done {
        Ok(Done::Read(batch)) => Some(batch),
        Ok(Done::Confirmed { result: Ok(()), .. }) => None,
        Ok(Done::Confirmed {
            up_to,
            result: Err(error),
        }) => {
            warn!(
                up_to,
                error = &*error as &dyn StdError,
                "the spool could not note a delivery"
            );
            None
        }
        // A read that panicked is retried; a confirmation is repeated by the next one.
        Err(error) => Some(Err(Box::new(error))),
    }
}
