//! What changes something.

use std::fmt::Write as _;

use muster_api::domain::NodeId;
use muster_config::{ConfigError, Format};
use muster_control_api::v1;
use muster_desired::{Accepted, DesiredStatus, Difference, UpdateId};
use muster_telemetry::ErrorChain;
use tonic::Status;
use tracing::{info, warn};

use super::{ControlServer, invalid};
use crate::operations::{OperationError, PlannedPlace, Previewed};
use crate::wire;

/// Placements in one answer.
const PLACEMENTS: usize = 10_000;
/// Problems of a document that are told at once: a status travels in a header, which is small.
const PROBLEMS: usize = 20;
/// Bytes of all of them.
const PROBLEM_BYTES: usize = 4 * 1024;

fn change(difference: &Difference) -> v1::Change {
    v1::Change {
        action: difference.change.action().to_owned(),
        kind: difference.object.kind().to_owned(),
        name: difference.object.name(),
        before: difference.change.before().to_owned(),
        after: difference.change.after().to_owned(),
    }
}

/// What has no place first: that is what an operator has to know.
fn placements(mut places: Vec<PlannedPlace>) -> (Vec<v1::Placement>, u64) {
    places.sort_by_key(|place| matches!(place, PlannedPlace::Placed { .. }));
    let more = places.len().saturating_sub(PLACEMENTS);
    places.truncate(PLACEMENTS);
    let listed = places.into_iter().map(wire::placement).collect();
    (listed, more.try_into().unwrap_or(u64::MAX))
}

fn response(accepted: Option<Accepted>, previewed: Previewed) -> v1::ApplyResponse {
    let (placements, more_placements) = placements(previewed.placements);
    v1::ApplyResponse {
        update_id: match accepted {
            Some(Accepted::New(update)) => update.0,
            Some(Accepted::Unchanged(_)) | None => 0,
        },
        changes: previewed.differences.iter().map(change).collect(),
        placements,
        more_placements,
    }
}

/// What is wrong with a document, with line and key of each.
fn document_problem(name: &str, error: &ConfigError) -> Status {
    let ConfigError::Invalid { problems, .. } = error else {
        return invalid(ErrorChain(error));
    };
    let mut text = format!("{name} is not a valid desired status");
    for problem in problems.iter().take(PROBLEMS) {
        // Writing to a text does not fail.
        let _ = write!(text, "\n{problem}");
    }
    if problems.len() > PROBLEMS {
        let _ = write!(text, "\nand {} more", problems.len() - PROBLEMS);
    }
    text.truncate(text.floor_char_boundary(PROBLEM_BYTES));
    invalid(text)
}

fn node(id: &str) -> Result<NodeId, Status> {
    id.parse().map_err(invalid)
}

/// An answer without a preview is worth more than none.
fn or_nothing(previewed: Result<Previewed, OperationError>) -> Previewed {
    previewed.unwrap_or_else(|error| {
        warn!(error = %ErrorChain(&error), "cannot tell beforehand what a desired status changes");
        Previewed::default()
    })
}

impl ControlServer {
    async fn read_document(
        &self,
        request: v1::ApplyRequest,
    ) -> Result<(DesiredStatus, String), Status> {
        let format = match request.format() {
            // Every JSON document is a YAML document too.
            v1::DocumentFormat::Unspecified | v1::DocumentFormat::Yaml => Format::Yaml,
            v1::DocumentFormat::Json => Format::Json,
        };
        let name = match request.name.as_str() {
            "" => "the document".to_owned(),
            name => name.to_owned(),
        };
        let limits = muster_config::Limits {
            file_bytes: self.limits.document_bytes,
            nodes: self.limits.document_values,
            ..muster_config::Limits::default()
        };
        // A long document takes longer than others should wait.
        let read = tokio::task::spawn_blocking(move || {
            match DesiredStatus::read(&name, format, &request.document, limits) {
                Ok(desired) => Ok((desired, name)),
                Err(error) => Err(document_problem(&name, &error)),
            }
        });
        read.await
            .map_err(|_| Status::internal("the document could not be read"))?
    }

    pub(super) async fn apply_document(
        &self,
        request: v1::ApplyRequest,
    ) -> Result<v1::ApplyResponse, Status> {
        let dry_run = request.dry_run;
        let (desired, name) = self.read_document(request).await?;
        let operations = &self.parts.operations;
        if dry_run {
            return Ok(response(None, operations.dry_run(desired).await?));
        }
        let previewed = operations.preview(desired.clone()).await;
        let accepted = operations.apply(desired, name.clone()).await?;
        info!(name, ?accepted, "an operator applied a desired status");
        Ok(response(Some(accepted), or_nothing(previewed)))
    }

    pub(super) async fn go_back(
        &self,
        request: &v1::RollbackRequest,
    ) -> Result<v1::ApplyResponse, Status> {
        let to = Some(request.update_id).filter(|id| *id != 0).map(UpdateId);
        let operations = &self.parts.operations;
        let previewed = operations.preview_rollback(to).await;
        if request.dry_run {
            return Ok(response(None, previewed?));
        }
        let accepted = operations.rollback(to).await?;
        info!(
            ?to,
            ?accepted,
            "an operator went back to an earlier desired status"
        );
        Ok(response(Some(accepted), or_nothing(previewed)))
    }

    pub(super) async fn desired(&self) -> Result<v1::GetDesiredResponse, Status> {
        let versions = self.parts.operations.versions().await?;
        let history = versions.iter().map(|version| v1::DesiredVersion {
            update_id: version.id.0,
            applied: Some(version.applied.into()),
            origin: version.origin.as_str().to_owned(),
            name: version.name.clone(),
        });
        let newest = versions.first();
        Ok(v1::GetDesiredResponse {
            document: newest.map(|it| it.desired.to_yaml()).unwrap_or_default(),
            update_id: newest.map_or(0, |it| it.id.0),
            history: history.collect(),
        })
    }

    pub(super) async fn pause(
        &self,
        request: &v1::SetNodePausedRequest,
    ) -> Result<v1::SetNodePausedResponse, Status> {
        let node = node(&request.node_id)?;
        let paused = request.paused;
        self.parts
            .operations
            .set_paused(node.clone(), paused)
            .await?;
        info!(%node, paused, "an operator paused or resumed a node");
        Ok(v1::SetNodePausedResponse {})
    }

    pub(super) async fn drain(
        &self,
        request: &v1::DrainNodeRequest,
    ) -> Result<v1::DrainNodeResponse, Status> {
        let node = node(&request.node_id)?;
        let dry_run = request.dry_run;
        let moves = self.parts.operations.drain(node.clone(), dry_run).await?;
        info!(%node, dry_run, "an operator drained a node");
        let (placements, _) = placements(moves);
        Ok(v1::DrainNodeResponse { placements })
    }
}
