//! What the daemon would do, written down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use muster_api::domain::{InstanceIdent, LogStatus, NodeId};
use muster_balance::{ChosenBecause, Explanation, NodeRefusal, NodeVerdict, Verdict};
use muster_control_server::{
    LogPart, LogRequest, Operation, OperationError, Operations, PlannedPlace, Previewed,
};
use muster_desired::{
    Accepted, ApplyError, DesiredStatus, Origin, Progress, RollbackError, UpdateId, Version, diff,
};
use tokio::sync::watch;

use crate::rig::{ident, node, runtime};

#[derive(Debug)]
pub(crate) struct Fake {
    /// What was asked for.
    pub(crate) asked: Mutex<Vec<String>>,
    versions: Mutex<Vec<Arc<Version>>>,
    pub(crate) progress: watch::Sender<Arc<Progress>>,
    pub(crate) log: Mutex<Vec<LogPart>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            versions: Mutex::default(),
            progress: watch::Sender::new(Arc::default()),
            log: Mutex::default(),
        }
    }
}

impl Fake {
    fn note(&self, text: String) {
        self.asked.lock().unwrap().push(text);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn current(&self) -> DesiredStatus {
        let versions = self.versions.lock().unwrap();
        versions
            .first()
            .map(|it| DesiredStatus::clone(&it.desired))
            .unwrap_or_default()
    }

    fn earlier(&self, to: Option<UpdateId>) -> Result<Arc<Version>, OperationError> {
        let versions = self.versions.lock().unwrap();
        let found = match to {
            Some(update) => versions.iter().find(|it| it.id == update),
            None => versions.get(1),
        };
        let missing = to.map_or(RollbackError::NoEarlier, |update| RollbackError::NotKept {
            update,
        });
        Ok(Arc::clone(found.ok_or(ApplyError::Rollback(missing))?))
    }

    fn take(&self, desired: DesiredStatus, name: String) -> Accepted {
        let mut versions = self.versions.lock().unwrap();
        if let Some(newest) = versions.first()
            && *newest.desired == desired
        {
            return Accepted::Unchanged(newest.id);
        }
        let id = UpdateId(versions.first().map_or(1, |newest| newest.id.0 + 1));
        versions.insert(
            0,
            Arc::new(Version {
                id,
                applied: SystemTime::now(),
                origin: Origin::Operator,
                name,
                desired: Arc::new(desired),
                places: BTreeMap::new(),
            }),
        );
        Accepted::New(id)
    }

    fn previewed(&self, desired: &DesiredStatus) -> Previewed {
        Previewed {
            differences: diff(&self.current(), desired),
            placements: vec![
                PlannedPlace::Placed {
                    instance: ident("web", 0),
                    node: node("n1"),
                    runtime: Some("container".parse().unwrap()),
                },
                PlannedPlace::Unplaced {
                    instance: ident("web", 1),
                    reason: "no node can take it".to_owned(),
                },
            ],
        }
    }
}

fn known(node: &NodeId) -> Result<(), OperationError> {
    match node.as_str() {
        "n1" => Ok(()),
        _ => Err(OperationError::UnknownNode { node: node.clone() }),
    }
}

impl Operations for Fake {
    fn apply(&self, desired: DesiredStatus, name: String) -> Operation<'_, Accepted> {
        self.note(format!("apply {name}"));
        Box::pin(async move { Ok(self.take(desired, name)) })
    }

    fn preview(&self, desired: DesiredStatus) -> Operation<'_, Previewed> {
        Box::pin(async move { Ok(self.previewed(&desired)) })
    }

    fn rollback(&self, to: Option<UpdateId>) -> Operation<'_, Accepted> {
        self.note(format!("rollback {to:?}"));
        Box::pin(async move {
            let earlier = self.earlier(to)?;
            Ok(self.take(DesiredStatus::clone(&earlier.desired), earlier.name.clone()))
        })
    }

    fn preview_rollback(&self, to: Option<UpdateId>) -> Operation<'_, Previewed> {
        Box::pin(async move { Ok(self.previewed(&self.earlier(to)?.desired)) })
    }

    fn versions(&self) -> Operation<'_, Vec<Arc<Version>>> {
        Box::pin(async move { Ok(self.versions.lock().unwrap().clone()) })
    }

    fn progress(&self) -> watch::Receiver<Arc<Progress>> {
        self.progress.subscribe()
    }

    fn explain(&self, instance: InstanceIdent) -> Operation<'_, Explanation> {
        Box::pin(async move {
            if instance != ident("web", 0) {
                return Err(OperationError::UnknownInstance { instance });
            }
            let verdict = |name: &str, verdict| NodeVerdict {
                node: node(name),
                verdict,
            };
            let chosen = Verdict::Chosen {
                runtime: runtime("n1"),
                because: ChosenBecause::Best,
            };
            let refused = Verdict::Refused {
                why: NodeRefusal::Paused,
            };
            Ok(Explanation {
                instance,
                unplaced: None,
                nodes: vec![verdict("n1", chosen), verdict("n2", refused)],
            })
        })
    }

    fn read_logs(
        &self,
        request: LogRequest,
    ) -> Operation<'_, BoxStream<'static, Result<LogPart, OperationError>>> {
        self.note(format!("logs {request:?}"));
        Box::pin(async move {
            for node in &request.nodes {
                known(node)?;
            }
            let mut parts: Vec<_> = self
                .log
                .lock()
                .unwrap()
                .clone()
                .into_iter()
                .map(Ok)
                .collect();
            if parts.is_empty() {
                parts.push(Ok(LogPart {
                    node: node("n1"),
                    data: Vec::new(),
                    status: LogStatus::Empty,
                    error: None,
                }));
            }
            Ok(stream::iter(parts).boxed())
        })
    }

    fn set_paused(&self, node: NodeId, paused: bool) -> Operation<'_, ()> {
        self.note(format!("pause {node} {paused}"));
        Box::pin(async move { known(&node) })
    }

    fn drain(&self, node: NodeId, dry_run: bool) -> Operation<'_, Vec<PlannedPlace>> {
        self.note(format!("drain {node} {dry_run}"));
        Box::pin(async move {
            known(&node)?;
            Ok(self.previewed(&DesiredStatus::default()).placements)
        })
    }
}
