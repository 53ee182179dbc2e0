//! What callers hand to the thread that owns the connection.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::{AttemptError, StoreError};

/// A closure with the place where its result goes.
pub(crate) trait Job: Send {
    /// Runs the closure, once.
    fn run(&mut self, db: &Connection) -> Result<(), Failure>;
    /// Tells the caller: its own result, or what came in between.
    fn finish(self: Box<Self>, failed: Option<StoreError>);
}

/// Why what a job wrote must be undone.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It said so, and its result says why.
    Refused,
    Sql(rusqlite::Error),
    Panicked(String),
}

/// What a closure came to.
pub(crate) enum Verdict<R> {
    Keep(R),
    Undo(R),
    Failed(rusqlite::Error),
}

/// A result that can also say that the store failed.
pub(crate) trait Reply: Send + 'static {
    fn failed(error: StoreError) -> Self;
}

impl<T: Send + 'static> Reply for Result<T, StoreError> {
    fn failed(error: StoreError) -> Self {
        Err(error)
    }
}

impl<T: Send + 'static, E: Send + 'static> Reply for Result<T, AttemptError<E>> {
    fn failed(error: StoreError) -> Self {
        Err(AttemptError::Store(error))
    }
}

pub(crate) struct Task<F, R> {
    work: Option<F>,
    result: Option<R>,
    reply: oneshot::Sender<R>,
}

impl<F, R> Task<F, R>
where
    F: FnOnce(&Connection) -> Verdict<R> + Send + 'static,
    R: Reply,
{
    /// The job for the thread, and where the caller finds the result.
    pub(crate) fn pair(work: F) -> (Box<dyn Job>, oneshot::Receiver<R>) {
        let (reply, receiver) = oneshot::channel();
        (
            Box::new(Self {
                work: Some(work),
                result: None,
                reply,
            }),
            receiver,
        )
    }
}

impl<F, R> Job for Task<F, R>
where
    F: FnOnce(&Connection) -> Verdict<R> + Send,
    R: Reply,
{
    fn run(&mut self, db: &Connection) -> Result<(), Failure> {
        let Some(work) = self.work.take() else {
            return Ok(());
        };
        // The closure is gone after a panic, and what it wrote is rolled back: nothing half done
        // can be seen.
        match catch_unwind(AssertUnwindSafe(|| work(db))) {
            Ok(Verdict::Keep(result)) => {
                self.result = Some(result);
                Ok(())
            }
            Ok(Verdict::Undo(result)) => {
                self.result = Some(result);
                Err(Failure::Refused)
            }
            Ok(Verdict::Failed(error)) => Err(Failure::Sql(error)),
            Err(panic) => Err(Failure::Panicked(message(&*panic))),
        }
    }

    fn finish(self: Box<Self>, failed: Option<StoreError>) {
        let result = failed.map(R::failed).or(self.result);
        if let Some(result) = result {
            // A caller that has gone away does not want to know.
            let _ = self.reply.send(result);
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
