//! The thread that owns the connection: takes jobs in order, and commits waiting writes together.
//!
//! A commit costs one flush of the disk, whatever it contains. Writes that arrive while one flush
//! runs therefore share the next: each in a savepoint of its own, so that one that fails undoes only
//! itself, and all are told after the one commit is durable.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization, Wal};
use rusqlite::wal::CheckpointMode;
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::fault;
use crate::files::{Files, Lock};
use crate::job::{Failure, Job};

/// Writes that share one commit, at most: bounds how long the first of them waits.
const BATCH: usize = 256;
/// Pages in the log (4 MiB) from which it is copied into the database.
const CHECKPOINT_PAGES: i32 = 1000;

/// Pragmas whose argument says what to look at, and changes nothing.
const PRAGMAS_THAT_ONLY_TELL: [&str; 9] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_xinfo",
];

pub(crate) enum Message {
    Read(Box<dyn Job>),
    Write(Box<dyn Job>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

pub(crate) struct Worker {
    db: Connection,
    files: Files,
    lock: Lock,
    jobs: mpsc::Receiver<Message>,
    /// Taken from the queue, but not to be run together with the writes before it.
    next: Option<Message>,
    in_job: Arc<AtomicBool>,
    log_pages: Arc<AtomicI32>,
    checkpoint_at: i32,
    suspected: bool,
}

impl Worker {
    pub(crate) fn new(
        mut db: Connection,
        files: Files,
        lock: Lock,
        jobs: mpsc::Receiver<Message>,
    ) -> rusqlite::Result<Self> {
        let in_job = Arc::new(AtomicBool::new(false));
        let guarded = Arc::clone(&in_job);
        db.authorizer(Some(move |context: AuthContext<'_>| {
            if guarded.load(Ordering::Relaxed) {
                judge(context.action)
            } else {
                Authorization::Allow
            }
        }))?;
        let log_pages = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&log_pages);
        db.wal_hook(Some(move |_: &mut Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            db,
            files,
            lock,
            jobs,
            next: None,
            in_job,
            log_pages,
            checkpoint_at: CHECKPOINT_PAGES,
            suspected: false,
        })
    }

    /// Runs until the store is closed or its last handle is gone.
    pub(crate) fn run(mut self) {
        let mut closing = None;
        while let Some(message) = self.next.take().or_else(|| self.jobs.blocking_recv()) {
            match message {
                Message::Read(job) => self.read(job),
                Message::Write(job) => self.write(job),
                Message::Close(reply) => {
                    closing = Some(reply);
                    break;
                }
            }
        }
        // Callers behind the close are told that there is no store any more.
        self.jobs.close();
        muster_fault::hit(fault::CLOSING);
        let path = self.files.main();
        let closed = self
            .db
            .close()
            .map_err(|(_, error)| StoreError::from_sqlite(&path, error));
        if let Err(error) = &closed {
            tracing::error!(database = %path.display(), error = error as &dyn Error, "A database could not be closed cleanly.");
        }
        // The lock goes before the caller hears of it, so that it can open the database again.
        drop(self.lock);
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }

    fn read(&mut self, mut job: Box<dyn Job>) {
        let failed = match self.db.pragma_update(None, "query_only", true) {
            Err(error) => Some(self.store_error(error)),
            Ok(()) => self
                .run_job(&mut *job)
                .err()
                .and_then(|failure| self.explain(failure)),
        };
        let failed = match self.db.pragma_update(None, "query_only", false) {
            Err(error) => failed.or_else(|| Some(self.store_error(error))),
            Ok(()) => failed,
        };
        job.finish(failed);
    }

    fn write(&mut self, first: Box<dyn Job>) {
        let mut waiting = VecDeque::from([first]);
        while waiting.len() < BATCH {
            match self.jobs.try_recv() {
                Ok(Message::Write(job)) => waiting.push_back(job),
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        // More than one turn only if SQLite gave a transaction up under the jobs in it.
        while !waiting.is_empty() {
            self.write_together(&mut waiting);
        }
        self.checkpoint_if_due();
    }

    /// Runs waiting jobs in one transaction, and takes them from the queue.
    fn write_together(&mut self, waiting: &mut VecDeque<Box<dyn Job>>) {
        if let Err(error) = self.db.execute_batch("BEGIN IMMEDIATE") {
            let error = self.store_error(error);
            fail_all(waiting.drain(..), &error);
            return;
        }
        let mut done = Vec::with_capacity(waiting.len());
        while let Some(job) = waiting.pop_front() {
            if let Err(error) = self.run_in_savepoint(job, &mut done) {
                self.roll_back();
                fail_all(done, &error);
                return;
            }
        }
        if done.is_empty() {
            self.roll_back();
            return;
        }
        match self.db.execute_batch("COMMIT") {
            Ok(()) => {
                muster_fault::hit(fault::COMMITTED);
                for job in done {
                    job.finish(None);
                    muster_fault::hit(fault::ACKNOWLEDGED);
                }
            }
            Err(error) => {
                self.roll_back();
                let error = self.store_error(error);
                fail_all(done, &error);
            }
        }
    }

    /// An error means that the whole transaction is lost, with all jobs that were done in it.
    fn run_in_savepoint(
        &mut self,
        mut job: Box<dyn Job>,
        done: &mut Vec<Box<dyn Job>>,
    ) -> Result<(), StoreError> {
        let ran = match self.db.execute_batch("SAVEPOINT muster_job") {
            Ok(()) => self.run_job(&mut *job),
            Err(error) => Err(Failure::Sql(error)),
        };
        if self.db.is_autocommit() {
            // SQLite rolls everything back by itself when the disk is full or fails.
            let error = match ran {
                Err(Failure::Sql(error)) => self.store_error(error),
                _ => StoreError::RolledBack {
                    path: self.files.main(),
                },
            };
            job.finish(Some(error.clone()));
            return Err(error);
        }
        let end = match ran {
            Ok(()) => "RELEASE muster_job",
            Err(_) => "ROLLBACK TO muster_job; RELEASE muster_job",
        };
        if let Err(error) = self.db.execute_batch(end) {
            let error = self.store_error(error);
            job.finish(Some(error.clone()));
            return Err(error);
        }
        match ran {
            Ok(()) => {
                done.push(job);
                muster_fault::hit(fault::JOB_DONE);
            }
            Err(failure) => job.finish(self.explain(failure)),
        }
        Ok(())
    }

    fn run_job(&self, job: &mut dyn Job) -> Result<(), Failure> {
        self.in_job.store(true, Ordering::Relaxed);
        let ran = job.run(&self.db);
        self.in_job.store(false, Ordering::Relaxed);
        ran
    }

    fn roll_back(&mut self) {
        if !self.db.is_autocommit()
            && let Err(error) = self.db.execute_batch("ROLLBACK")
        {
            let error = self.store_error(error);
            tracing::error!(database = %self.files.main().display(), error = &error as &dyn Error, "A transaction could not be rolled back.");
        }
    }

    /// After the callers were told: it costs two flushes that nobody needs to wait for.
    fn checkpoint_if_due(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.checkpoint_at {
            return;
        }
        muster_fault::hit(fault::CHECKPOINT);
        match self
            .db
            .wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)
        {
            Ok(_) => self.checkpoint_at = CHECKPOINT_PAGES,
            Err(error) => {
                // What was acknowledged is safe in the log. Not tried again at every commit.
                self.checkpoint_at = pages.saturating_add(CHECKPOINT_PAGES);
                let error = self.store_error(error);
                tracing::warn!(database = %self.files.main().display(), pages, error = &error as &dyn Error, "The log could not be copied into the database; it grows until that works.");
            }
        }
    }

    /// `None`: the job's own result says what happened.
    fn explain(&mut self, failure: Failure) -> Option<StoreError> {
        match failure {
            Failure::Refused => None,
            Failure::Sql(error) => Some(self.store_error(error)),
            Failure::Panicked(message) => Some(StoreError::Panicked {
                path: self.files.main(),
                message,
            }),
        }
    }

    /// Sorts an error, and remembers damage for the next open.
    fn store_error(&mut self, error: rusqlite::Error) -> StoreError {
        let error = StoreError::from_sqlite(&self.files.main(), error);
        if matches!(error, StoreError::Damaged { .. }) && !self.suspected {
            self.suspected = true;
            let noted = self
                .files
                .write_note(&self.files.suspect(), "damage seen in use\n");
            if let Err(error) = noted {
                tracing::error!(database = %self.files.main().display(), error = &error as &dyn Error, "Damage could not be noted; the next start may not check the database in full.");
            }
        }
        error
    }
}

fn fail_all(jobs: impl IntoIterator<Item = Box<dyn Job>>, error: &StoreError) {
    for job in jobs {
        job.finish(Some(error.clone()));
    }
}

/// What a caller's statements may not do: end the transaction it shares with others, or change what
/// durability rests on.
fn judge(action: AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Authorization::Deny
        }
        AuthAction::Pragma {
            pragma_name,
            pragma_value: Some(_),
        } if !PRAGMAS_THAT_ONLY_TELL.contains(&pragma_name) => Authorization::Deny,
        _ => Authorization::Allow,
    }
}
