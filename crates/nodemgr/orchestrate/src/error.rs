//! Why the orchestrator did not do what it was asked.

use std::io;
use std::path::PathBuf;

use muster_store::StoreError;

use crate::run::RunId;
use crate::workflow::ReadWorkflowError;

/// Why the orchestrator cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartRunsError {
    /// The database failed.
    #[error("cannot read which runs there are")]
    Store(#[source] StoreError),
    /// The folder of logs cannot be used.
    #[error("cannot use the folder of logs {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A run's workflow is none any more.
    #[error("cannot understand the workflow of run {run}")]
    Workflow {
        /// Which run.
        run: String,
        /// What is wrong.
        source: ReadWorkflowError,
    },
    /// A run's journal says what this version does not understand.
    #[error("cannot understand what is recorded of run {run}")]
    Record {
        /// Which run.
        run: String,
        /// What is wrong.
        source: BadRecord,
    },
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum BadRecord {
    /// It is not written as it should be.
    #[error("it is not written as it should be")]
    Text(#[source] serde_json::Error),
    /// Its id is none.
    #[error("its id is none")]
    Id(#[source] crate::run::BadRunId),
}

/// Why a run was not accepted. Nothing has happened then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// There are as many runs under way as there may be.
    #[error("{0} runs are under way already: wait for one, cancel one, or raise the limit")]
    TooMany(usize),
    /// The key was used for another workflow.
    #[error("run {run} was ordered with the key {key:?}, and differently")]
    KeyUsed {
        /// The key.
        key: String,
        /// The run.
        run: RunId,
    },
    /// The orchestrator has ended.
    #[error("the orchestrator has ended")]
    Ended,
}

/// Why something was not done about a run. Nothing has happened then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is none.
    #[error("there is no run {0}")]
    Unknown(RunId),
    /// It is over.
    #[error("run {0} is over")]
    Over(RunId),
    /// It is under way.
    #[error("run {0} is under way: cancel it first")]
    UnderWay(RunId),
    /// The database failed.
    #[error("cannot read what is recorded of run {run}")]
    Store {
        /// Which run.
        run: RunId,
        /// Why.
        source: StoreError,
    },
    /// What is recorded of it cannot be understood.
    #[error("cannot show run {run}")]
    Show {
        /// Which run.
        run: RunId,
        /// Why.
        source: Box<StartRunsError>,
    },
    /// Its log cannot be read.
    #[error("cannot read the log of run {run}")]
    Log {
        /// Which run.
        run: RunId,
        /// Why.
        source: io::Error,
    },
    /// The orchestrator has ended.
    #[error("the orchestrator has ended")]
    Ended,
}
