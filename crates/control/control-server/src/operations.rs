//! What the daemon does for operators.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_api::domain::{
    AosError, InstanceFilter, InstanceIdent, LogStatus, NodeId, RuntimeType, Timestamp,
};
use muster_balance::{ExplainInstanceError, Explanation};
use muster_desired::{
    Accepted, ApplyError, DesiredStatus, Difference, Progress, RollbackError, UpdateId, Version,
};
use muster_telemetry::ErrorChain;
use tokio::sync::watch;
use tonic::{Code, Status};

/// What an operation is doing, and what becomes of it.
pub type Operation<'a, T> = BoxFuture<'a, Result<T, OperationError>>;

/// Where an instance would be or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedPlace {
    /// There.
    Placed {
        /// Which instance.
        instance: InstanceIdent,
        /// On which node.
        node: NodeId,
        /// By which kind of runtime, if that is known.
        runtime: Option<RuntimeType>,
    },
    /// Nowhere.
    Unplaced {
        /// Which instance.
        instance: InstanceIdent,
        /// Why.
        reason: String,
    },
}

/// What a wish would change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Previewed {
    /// Against what is wanted.
    pub differences: Vec<Difference>,
    /// Where every wanted instance would be.
    pub placements: Vec<PlannedPlace>,
}

/// Whose logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// The nodes' own.
    System,
    /// What instances write.
    Instances(InstanceFilter),
    /// What instances wrote before each failed end.
    Crashes(InstanceFilter),
}

/// Which logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// Whose.
    pub source: LogSource,
    /// Of these nodes; of all if there are none.
    pub nodes: Vec<NodeId>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Not after; not looked at with `follow`.
    pub till: Option<Timestamp>,
    /// Goes on with what is written from now on.
    pub follow: bool,
}

/// A piece of a node's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// Of which node.
    pub node: NodeId,
    /// Text, not compressed.
    pub data: Vec<u8>,
    /// How it ends.
    pub status: LogStatus,
    /// Why there is no more.
    pub error: Option<AosError>,
}

/// What operators can ask for. Futures may be dropped at any point: a caller that hangs up has not waited for the answer, and
/// what is durable by then stays.
pub trait Operations: Send + Sync + fmt::Debug + 'static {
    /// Wants this from now on. Answers when the wish is durable.
    fn apply(&self, desired: DesiredStatus, name: String) -> Operation<'_, Accepted>;
    /// What this would change, as far as that is known at once.
    fn preview(&self, desired: DesiredStatus) -> Operation<'_, Previewed>;
    /// The same, where somebody waits for it and nothing else: what is not known may be asked for, within a bounded time.
    fn dry_run(&self, desired: DesiredStatus) -> Operation<'_, Previewed> {
        self.preview(desired)
    }
    /// Wants again what was wanted by an earlier update, or, without one, what was wanted before.
    fn rollback(&self, to: Option<UpdateId>) -> Operation<'_, Accepted>;
    /// What going back would change.
    fn preview_rollback(&self, to: Option<UpdateId>) -> Operation<'_, Previewed>;
    /// What is wanted, then what was wanted before it, the newest first.
    fn versions(&self) -> Operation<'_, Vec<Arc<Version>>>;
    /// How the newest update goes, as it changes.
    fn progress(&self) -> watch::Receiver<Arc<Progress>>;
    /// Why an instance is where it is, or is nowhere.
    fn explain(&self, instance: InstanceIdent) -> Operation<'_, Explanation>;
    /// Logs, in order per node. Ends when there are no more; dropped when nobody reads.
    fn read_logs(
        &self,
        request: LogRequest,
    ) -> Operation<'_, BoxStream<'static, Result<LogPart, OperationError>>>;
    /// A paused node keeps what it runs and gets nothing new. Answers when the node is, and stays so.
    fn set_paused(&self, node: NodeId, paused: bool) -> Operation<'_, ()>;
    /// Moves what can be moved away from a node and pauses it; only says what would move with `dry_run`.
    fn drain(&self, node: NodeId, dry_run: bool) -> Operation<'_, Vec<PlannedPlace>>;
}

/// Why an operation did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// There is no such node.
    #[error("there is no node {node}; `muster get nodes` lists them")]
    UnknownNode {
        /// Which one.
        node: NodeId,
    },
    /// There is no such instance.
    #[error("instance {instance} is not wanted; `muster get instances` lists what is")]
    UnknownInstance {
        /// Which one.
        instance: InstanceIdent,
    },
    /// There is no such update.
    #[error("the desired status of update {update} is not kept any more")]
    UnknownUpdate {
        /// Which one.
        update: UpdateId,
    },
    /// Nothing else was wanted before.
    #[error("there is no earlier desired status to go back to")]
    NothingEarlier,
    /// It cannot be done as things are.
    #[error("cannot {operation}: {why}")]
    Refused {
        /// What was asked for: `drain node n1`.
        operation: String,
        /// Why not, and what would help.
        why: String,
    },
    /// Somebody who is needed does not answer.
    #[error("cannot {operation} now")]
    Unavailable {
        /// What was asked for.
        operation: String,
        /// Why.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The daemon is about to end.
    #[error("the Communication Manager is about to end; try again when it is up")]
    Stopping,
    /// Something went wrong here.
    #[error("cannot {operation}")]
    Failed {
        /// What was asked for.
        operation: String,
        /// What went wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl OperationError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownNode { .. }
            | Self::UnknownInstance { .. }
            | Self::UnknownUpdate { .. } => Code::NotFound,
            Self::NothingEarlier | Self::Refused { .. } => Code::FailedPrecondition,
            Self::Unavailable { .. } | Self::Stopping => Code::Unavailable,
            Self::Failed { .. } => Code::Internal,
        }
    }
}

impl From<OperationError> for Status {
    /// The text has all causes: nobody else tells the operator.
    fn from(error: OperationError) -> Self {
        Self::new(error.code(), ErrorChain(&error).to_string())
    }
}

impl From<ApplyError> for OperationError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Rollback(RollbackError::NoEarlier) => Self::NothingEarlier,
            ApplyError::Rollback(RollbackError::NotKept { update }) => {
                Self::UnknownUpdate { update }
            }
            ApplyError::Gone => Self::Stopping,
            other => Self::Failed {
                operation: "take the desired status".to_owned(),
                source: Box::new(other),
            },
        }
    }
}

impl From<ExplainInstanceError> for OperationError {
    fn from(error: ExplainInstanceError) -> Self {
        match error {
            ExplainInstanceError::NotWanted { instance } => Self::UnknownInstance { instance },
            other => Self::Failed {
                operation: "explain where the instance is".to_owned(),
                source: Box::new(other),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code_and_tells_all_causes() {
        let node = NodeId::new("n1").unwrap();
        let boxed = || "the disk is full".into();
        let cases = [
            (
                OperationError::UnknownNode { node },
                Code::NotFound,
                "there is no node n1; `muster get nodes` lists them",
            ),
            (
                ApplyError::Rollback(RollbackError::NoEarlier).into(),
                Code::FailedPrecondition,
                "there is no earlier desired status to go back to",
            ),
            (
                ApplyError::Gone.into(),
                Code::Unavailable,
                "the Communication Manager is about to end; try again when it is up",
            ),
            (
                OperationError::Failed {
                    operation: "drain node n1".to_owned(),
                    source: boxed(),
                },
                Code::Internal,
                "cannot drain node n1: the disk is full",
            ),
            (
                OperationError::Unavailable {
                    operation: "read logs of n1".to_owned(),
                    source: boxed(),
                },
                Code::Unavailable,
                "cannot read logs of n1 now: the disk is full",
            ),
        ];
        for (error, code, text) in cases {
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, text));
        }
    }
}
