//! What operators can ask for.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use muster_api::domain::{InstanceIdent, NodeId};
use muster_balance::{Capacity, Explanation, Place, Reason, Relief};
use muster_control_server::{
    LogPart, LogRequest, Operation, OperationError, Operations, PlannedPlace, Previewed,
};
use muster_desired::seams::Question;
use muster_desired::{
    Accepted, ApplyError, DesiredStatus, Origin, Preview, Progress, UpdateId, UpdateStep, Updates,
    Version,
};
use tokio::sync::watch;

use crate::placement::{Placer, Sight};
use crate::unit_nodes::{PauseNodeError, UnitNodes};

/// So long is waited for instances to leave a node.
const MOVES: Duration = Duration::from_secs(60);

/// Carries out what operators ask for.
#[derive(Debug)]
pub(crate) struct UnitOperations {
    pub(crate) updates: Updates,
    pub(crate) placer: Arc<Placer>,
    pub(crate) nodes: UnitNodes,
}

impl UnitOperations {
    async fn previewed(
        &self,
        preview: Result<Preview, ApplyError>,
        sight: Sight,
    ) -> Result<Previewed, OperationError> {
        let Preview {
            differences,
            question,
        } = preview?;
        let placements = self.places(question, sight).await?;
        Ok(Previewed {
            differences,
            placements,
        })
    }

    /// Where everything would be.
    async fn places(
        &self,
        question: Question,
        sight: Sight,
    ) -> Result<Vec<PlannedPlace>, OperationError> {
        let preview = self.placer.preview(question, sight).await;
        let preview = preview.map_err(|source| OperationError::Failed {
            operation: "plan where instances would be".to_owned(),
            source: Box::new(source),
        })?;
        let placement = preview.assignment.placement().into_iter();
        let placed = placement.map(|(instance, place)| PlannedPlace::Placed {
            instance,
            runtime: preview.runtimes.get(&place.runtime).cloned(),
            node: place.node,
        });
        let unplaced = preview.assignment.unplaced.iter();
        let unplaced = unplaced.map(|(instance, error)| PlannedPlace::Unplaced {
            instance: instance.clone(),
            reason: error.message.clone(),
        });
        Ok(placed.chain(unplaced).collect())
    }

    /// What the balancer would be asked about what is wanted now.
    async fn question(&self) -> Result<Question, OperationError> {
        let versions = self.updates.versions().await?;
        let wanted = versions.first().map(|it| DesiredStatus::clone(&it.desired));
        let preview = self.updates.preview(wanted.unwrap_or_default()).await?;
        Ok(preview.question)
    }

    async fn pause(&self, node: &NodeId, paused: bool) -> Result<(), OperationError> {
        let operation = || match paused {
            true => format!("pause node {node}"),
            false => format!("resume node {node}"),
        };
        let done = self.nodes.set_paused(node, paused).await;
        done.map_err(|error| match error {
            PauseNodeError::Unknown { node } => OperationError::UnknownNode { node },
            other => OperationError::Unavailable {
                operation: operation(),
                source: Box::new(other),
            },
        })
    }

    /// A paused node is told nothing, so it is paused when it has been told to stop what went elsewhere.
    async fn wait_for_moves(
        &self,
        node: &NodeId,
        moves: &[PlannedPlace],
    ) -> Result<(), OperationError> {
        let moved = |progress: &Arc<Progress>| {
            let elsewhere = |place: &PlannedPlace| match place {
                PlannedPlace::Placed { instance, .. } => {
                    progress.instances.on_node(node, instance).is_none()
                }
                PlannedPlace::Unplaced { .. } => true,
            };
            progress.step != UpdateStep::Launching && moves.iter().all(elsewhere)
        };
        let mut progress = self.updates.progress();
        let waited = tokio::time::timeout(MOVES, progress.wait_for(moved)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(OperationError::Stopping),
            Err(_) => Err(OperationError::Refused {
                operation: format!("drain node {node}"),
                why: format!(
                    "its instances have not moved within {} s; `muster explain` says why",
                    MOVES.as_secs()
                ),
            }),
        }
    }
}

impl Operations for UnitOperations {
    fn apply(&self, desired: DesiredStatus, name: String) -> Operation<'_, Accepted> {
        Box::pin(async move {
            let accepted = self.updates.apply(desired, Origin::Operator, name).await;
            Ok(accepted?)
        })
    }

    fn preview(&self, desired: DesiredStatus) -> Operation<'_, Previewed> {
        Box::pin(async move {
            let preview = self.updates.preview(desired).await;
            self.previewed(preview, Sight::Here).await
        })
    }

    fn dry_run(&self, desired: DesiredStatus) -> Operation<'_, Previewed> {
        Box::pin(async move {
            let preview = self.updates.preview(desired).await;
            self.previewed(preview, Sight::AlsoSources).await
        })
    }

    fn rollback(&self, to: Option<UpdateId>) -> Operation<'_, Accepted> {
        Box::pin(async move { Ok(self.updates.rollback(to).await?) })
    }

    fn preview_rollback(&self, to: Option<UpdateId>) -> Operation<'_, Previewed> {
        Box::pin(async move {
            let preview = self.updates.preview_rollback(to).await;
            self.previewed(preview, Sight::Here).await
        })
    }

    fn versions(&self) -> Operation<'_, Vec<Arc<Version>>> {
        Box::pin(async move { Ok(self.updates.versions().await?) })
    }

    fn progress(&self) -> watch::Receiver<Arc<Progress>> {
        self.updates.progress()
    }

    fn explain(&self, instance: InstanceIdent) -> Operation<'_, Explanation> {
        Box::pin(async move {
            let question = self.question().await?;
            Ok(self.placer.explain(question, instance).await?)
        })
    }

    fn read_logs(
        &self,
        request: LogRequest,
    ) -> Operation<'_, BoxStream<'static, Result<LogPart, OperationError>>> {
        let (controller, switchboard) = (&self.nodes.controller, &self.nodes.switchboard);
        Box::pin(reading::read(controller, switchboard, request))
    }

    fn set_paused(&self, node: NodeId, paused: bool) -> Operation<'_, ()> {
        Box::pin(async move { self.pause(&node, paused).await })
    }

    fn drain(&self, node: NodeId, dry_run: bool) -> Operation<'_, Vec<PlannedPlace>> {
        Box::pin(async move {
            let known = self.nodes.switchboard.nodes().get(&node);
            if known.is_none() {
                return Err(OperationError::UnknownNode { node });
            }
            let relief = Relief {
                node: node.clone(),
                target: Capacity {
                    cpu: Some(0),
                    ram: Some(0),
                },
            };
            let mut question = self.question().await?;
            question.reason = Reason::QuotaAlert(vec![relief.clone()]);
            let leaving: Vec<InstanceIdent> = (question.running.iter())
                .filter(|(_, Place { node: at, .. })| *at == node)
                .map(|(instance, _)| instance.clone())
                .collect();
            let places = self.places(question, Sight::Here).await?;
            let moves = places.into_iter().filter(|place| match place {
                PlannedPlace::Placed {
                    instance, node: to, ..
                } => *to != node && leaving.contains(instance),
                PlannedPlace::Unplaced { .. } => false,
            });
            let moves: Vec<PlannedPlace> = moves.collect();
            if dry_run {
                return Ok(moves);
            }
            if !moves.is_empty() {
                self.updates.replan(Reason::QuotaAlert(vec![relief])).await;
                self.wait_for_moves(&node, &moves).await?;
            }
            self.pause(&node, true).await?;
            Ok(moves)
        })
    }
}
