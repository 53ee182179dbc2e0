//! The handle through which a database is used.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::aside;
use crate::error::{Abort, AttemptError, StoreError};
use crate::files::{Files, Lock};
use crate::job::{Job, Reply, Task, Verdict};
use crate::worker::{Message, Worker};

/// Jobs that wait before callers do.
const QUEUE: usize = 256;
/// SQLite keeps its large buffers on the heap.
const STACK: usize = 512 * 1024;

/// An open database. Clones are handles to the same one.
///
/// The last handle closes the database when it is dropped: it waits for the jobs that were handed in,
/// copies the log into the database and gives the lock back.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    files: Files,
    jobs: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    pub(crate) fn start(db: Connection, files: Files, lock: Lock) -> rusqlite::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let worker = Worker::new(db, files.clone(), lock, receiver)?;
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .stack_size(STACK)
            .spawn(move || worker.run())
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let inner = Inner {
            files,
            jobs: Some(sender),
            thread: Some(thread),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Changes the database, all or nothing. Answers after the change is durable.
    ///
    /// The closure runs in a transaction that it may share with other writes. It returns early with
    /// an error to undo what it did. It cannot end the transaction, nor set pragmas.
    pub fn write<T, F>(&self, work: F) -> Request<Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.request(Message::Write, move |db| match work(db) {
            Ok(value) => Verdict::Keep(Ok(value)),
            Err(error) => Verdict::Failed(error),
        })
    }

    /// Like [`write`](Self::write), for a closure that may also decide against the change with a
    /// reason of its own.
    pub fn attempt<T, E, F>(&self, work: F) -> Request<Result<T, AttemptError<E>>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Abort<E>> + Send + 'static,
    {
        self.request(Message::Write, move |db| match work(db) {
            Ok(value) => Verdict::Keep(Ok(value)),
            Err(Abort::Refuse(reason)) => Verdict::Undo(Err(AttemptError::Refused(reason))),
            Err(Abort::Sql(error)) => Verdict::Failed(error),
        })
    }

    /// Reads what was committed by all writes handed in before. A closure that tries to write fails.
    pub fn read<T, F>(&self, work: F) -> Request<Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.request(Message::Read, move |db| match work(db) {
            Ok(value) => Verdict::Keep(Ok(value)),
            Err(error) => Verdict::Failed(error),
        })
    }

    fn request<R, F>(&self, wrap: fn(Box<dyn Job>) -> Message, work: F) -> Request<R>
    where
        R: Reply,
        F: FnOnce(&Connection) -> Verdict<R> + Send + 'static,
    {
        let (job, reply) = Task::pair(work);
        Request {
            store: self.clone(),
            message: wrap(job),
            reply,
        }
    }

    /// Finishes the jobs handed in so far and closes the database for every handle. The database can
    /// be opened again when this returns; later jobs get [`StoreError::Closed`].
    ///
    /// It fails when the log could not be copied into the database; nothing is lost by that.
    pub fn close(self) -> Request<Result<(), StoreError>> {
        let (sender, reply) = oneshot::channel();
        Request {
            store: self,
            message: Message::Close(sender),
            reply,
        }
    }

    /// The database's path, links resolved.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.inner.files.main()
    }

    /// The damaged databases kept beside this one. Muster never deletes them; an operator does.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn set_aside_copies(&self) -> io::Result<Vec<PathBuf>> {
        aside::copies(&self.inner.files)
    }

    fn sender(&self) -> &mpsc::Sender<Message> {
        self.inner
            .jobs
            .as_ref()
            .expect("the queue is there until the last handle is dropped")
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.path() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: &Path = &self.path();
        f.debug_tuple("Store").field(&path).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The end of the queue is what ends the thread.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            // A closure can hold the last handle; the thread cannot wait for itself.
            && thread.thread().id() != thread::current().id()
        {
            // Closures' panics are caught, so only a defect here could have ended it early, and the
            // panic's message has been printed.
            let _ = thread.join();
        }
    }
}

/// Work for a store. It begins when this is awaited, or waited for with [`wait`](Self::wait).
///
/// Work that has been handed over is done even if the caller stops waiting.
#[must_use = "nothing happens until it is awaited or waited for"]
pub struct Request<R> {
    store: Store,
    message: Message,
    reply: oneshot::Receiver<R>,
}

impl<R> fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[expect(private_bounds, reason = "callers only ever see results that have it")]
impl<R: Reply> Request<R> {
    /// Waits without an async runtime.
    ///
    /// # Panics
    /// In async code, where it would block the runtime.
    pub fn wait(self) -> R {
        if self.store.sender().blocking_send(self.message).is_err() {
            return R::failed(self.store.closed());
        }
        self.reply
            .blocking_recv()
            .unwrap_or_else(|_| R::failed(self.store.closed()))
    }
}

impl<R: Reply> IntoFuture for Request<R> {
    type Output = R;
    type IntoFuture = Pin<Box<dyn Future<Output = R> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if self.store.sender().send(self.message).await.is_err() {
                return R::failed(self.store.closed());
            }
            self.reply
                .await
                .unwrap_or_else(|_| R::failed(self.store.closed()))
        })
    }
}
