//! How far an installation is.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Bytes between two reports.
const STEP: u64 = 256 << 10;

/// How far an installation is. The newest state is what counts, so it is watched, not queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have to come, as the manifest says; 0 until it is known. What the store has already is not counted.
    pub total_bytes: u64,
    /// Bytes that have come and passed their checks so far, those of earlier tries included.
    pub received_bytes: u64,
}

/// Counts what passes.
#[derive(Debug)]
pub(crate) struct Meter {
    received: AtomicU64,
    sender: Option<watch::Sender<Progress>>,
}

impl Meter {
    pub(crate) fn new(sender: Option<watch::Sender<Progress>>) -> Self {
        Self {
            received: AtomicU64::new(0),
            sender,
        }
    }

    pub(crate) fn expect(&self, bytes: u64) {
        if let Some(sender) = &self.sender {
            sender.send_modify(|progress| progress.total_bytes = bytes);
        }
    }

    /// So much has to come beyond what has come.
    pub(crate) fn expect_more(&self, bytes: u64) {
        self.expect(self.received.load(Ordering::Relaxed).saturating_add(bytes));
        self.report();
    }

    pub(crate) fn received(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.received.fetch_add(bytes, Ordering::Relaxed);
        if before / STEP != (before + bytes) / STEP {
            self.report();
        }
    }

    /// What came was wrong and does not count.
    pub(crate) fn took_back(&self, bytes: u64) {
        let _ = self
            .received
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |received| {
                Some(received.saturating_sub(bytes))
            });
        self.report();
    }

    pub(crate) fn report(&self) {
        if let Some(sender) = &self.sender {
            let received = self.received.load(Ordering::Relaxed);
            sender.send_modify(|progress| progress.received_bytes = received);
        }
    }
}
