//! What one turn of the driver has decided, to be written down together and done afterwards.

use tokio::sync::oneshot;

use crate::database::Changes;
use crate::job::Job;
use crate::run::RunId;

/// Told after everything is on disk.
type Told = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Turn {
    pub(super) changes: Changes,
    pub(super) told: Vec<Told>,
    pub(super) begin: Vec<(RunId, Job, u32)>,
    pub(super) abort: Vec<(RunId, Job)>,
}

impl Turn {
    /// Answers when the turn is on disk. Whoever asked may have gone; what was accepted stays accepted.
    pub(super) fn tell<T: Send + 'static>(&mut self, reply: oneshot::Sender<T>, value: T) {
        self.told.push(Box::new(move || {
            let _ = reply.send(value);
        }));
    }
}
