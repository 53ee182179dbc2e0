//! Why an instance is where it is.

use muster_api::domain::{InstanceIdent, NodeId, RuntimeId};
use muster_balance::{Explanation, NodeRefusal, NodeVerdict, Verdict};
use muster_control_api::v1;
use tonic::Status;

use super::{ControlServer, invalid};

impl ControlServer {
    pub(super) async fn explain_place(
        &self,
        request: v1::ExplainRequest,
    ) -> Result<v1::ExplainResponse, Status> {
        let ident = request
            .instance
            .ok_or_else(|| invalid("instance: missing"))?;
        let ident = InstanceIdent::try_from(ident).map_err(invalid)?;
        let explanation = self.parts.operations.explain(ident).await?;
        let runtime_type = |node: &NodeId, runtime: &RuntimeId| {
            self.parts.view.read(|state| {
                let found = state.node(node).and_then(|node| node.runtime_type(runtime));
                found.map(ToString::to_string).unwrap_or_default()
            })
        };
        Ok(response(explanation, runtime_type))
    }
}

fn response(
    explanation: Explanation,
    runtime_type: impl Fn(&NodeId, &RuntimeId) -> String,
) -> v1::ExplainResponse {
    let chosen = explanation
        .nodes
        .iter()
        .find_map(|node| match &node.verdict {
            Verdict::Chosen { because, .. } => Some((node.node.clone(), because)),
            _ => None,
        });
    let summary = match (&chosen, &explanation.unplaced) {
        (Some((node, because)), _) => format!("runs on {node}: {because}"),
        (None, Some(why)) => format!("runs nowhere: {why}"),
        (None, None) => "runs nowhere: there are no nodes".to_owned(),
    };
    let candidate = |NodeVerdict { node, verdict }: &NodeVerdict| {
        let (runtime, chosen, reasons) = match verdict {
            Verdict::Chosen { runtime, because } => {
                (Some(runtime), true, vec![because.to_string()])
            }
            Verdict::PassedOver { runtime, because } => {
                (Some(runtime), false, vec![because.to_string()])
            }
            Verdict::Refused {
                why: NodeRefusal::Runtimes { runtimes },
            } if !runtimes.is_empty() => {
                let reasons = runtimes.iter().map(ToString::to_string);
                (None, false, reasons.collect())
            }
            Verdict::Refused { why } => (None, false, vec![why.to_string()]),
        };
        v1::Candidate {
            node_id: node.to_string(),
            runtime_type: runtime.map(|it| runtime_type(node, it)).unwrap_or_default(),
            chosen,
            reasons,
        }
    };
    v1::ExplainResponse {
        candidates: explanation.nodes.iter().map(candidate).collect(),
        node_id: chosen.map(|(node, _)| node.to_string()).unwrap_or_default(),
        instance: Some(explanation.instance.into()),
        summary,
    }
}
