//! What the cloud said, on its way to whoever acts on it.

use std::time::Duration;

use tokio::sync::mpsc::OwnedPermit;

use crate::message::Incoming;

/// When a message is sent again whose receiver has gone without a word.
const UNSAID: Duration = Duration::from_secs(5);

/// What became of a message of the cloud.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) txn: String,
    /// `None`: it is durable. Else when to send it again.
    pub(crate) again: Option<Duration>,
}

/// A message of the cloud. The cloud is told that it has arrived when [`accept`](Self::accept) is called, and not before: do
/// so when it is on disk, or needs not be. One that is dropped is sent again by the cloud.
#[derive(Debug)]
pub struct Delivery {
    /// What it says.
    pub message: Incoming,
    /// To which request of the cloud an answer belongs.
    pub correlation: Option<String>,
    txn: String,
    verdict: Option<OwnedPermit<Verdict>>,
}

impl Delivery {
    pub(crate) fn new(
        message: Incoming,
        correlation: Option<String>,
        txn: String,
        verdict: OwnedPermit<Verdict>,
    ) -> Self {
        Self {
            message,
            correlation,
            txn,
            verdict: Some(verdict),
        }
    }

    /// It is durable: the cloud is told that it has arrived.
    pub fn accept(mut self) {
        self.say(None);
    }

    /// It cannot be taken now: the cloud is asked to send it again after a while.
    pub fn refuse(mut self, retry_after: Duration) {
        self.say(Some(retry_after));
    }

    fn say(&mut self, again: Option<Duration>) {
        if let Some(permit) = self.verdict.take() {
            permit.send(Verdict {
                txn: std::mem::take(&mut self.txn),
                again,
            });
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.say(Some(UNSAID));
    }
}
