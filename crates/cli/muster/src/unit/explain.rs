//! `explain`: every node, with why an instance is there or not.

use muster_control_api::v1;
use serde::Serialize;

use super::facts::instance_name;
use super::{UnitCommandError, connect, get, naming};
use crate::cli::Output;
use crate::cli::unit as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::shown;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    instance: String,
    node: Option<String>,
    summary: String,
    candidates: Vec<Candidate>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    node: String,
    runtime_type: String,
    chosen: bool,
    reasons: Vec<String>,
}

impl From<v1::ExplainResponse> for Explanation {
    fn from(answer: v1::ExplainResponse) -> Self {
        let candidate = |it: v1::Candidate| Candidate {
            node: it.node_id,
            runtime_type: it.runtime_type,
            chosen: it.chosen,
            reasons: it.reasons,
        };
        Self {
            instance: instance_name(&answer.instance.unwrap_or_default()),
            node: Some(answer.node_id).filter(|node| !node.is_empty()),
            summary: answer.summary,
            candidates: answer.candidates.into_iter().map(candidate).collect(),
        }
    }
}

impl Candidate {
    /// One line for each reason, the first with the node.
    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        let count = self.reasons.len().max(1);
        (0..count).map(|nth| {
            let reason = self.reasons.get(nth).map_or("", String::as_str);
            let mut row = match nth {
                0 => vec![
                    shown(&self.node),
                    shown(&self.runtime_type),
                    if self.chosen { "yes" } else { "no" }.to_owned(),
                ],
                _ => vec![String::new(); 3],
            };
            row.push(shown(reason));
            row
        })
    }
}

impl Answer for Explanation {
    fn table(&self) -> Table {
        let rows = self.candidates.iter().flat_map(Candidate::rows);
        Table::list(&["NODE", "RUNTIME", "CHOSEN", "WHY"], rows.collect())
    }
}

pub(super) async fn explain(
    explain: &cli::Explain,
    console: &mut Console,
) -> Result<(), CommandError> {
    let unit = connect(&explain.connection).await?;
    let instances = get::instances(&unit, None).await?;
    let instance = naming::one(&explain.instance, &instances)?;
    let request = v1::ExplainRequest {
        instance: Some(instance.ident()),
    };
    let answer = unit
        .ask("Explain", async |mut it| it.explain(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    let explanation = Explanation::from(answer);
    if matches!(console.output(), Output::Table | Output::Wide) {
        let place = match &explanation.node {
            Some(node) => format!("is on {}", shown(node)),
            None => "has no place".to_owned(),
        };
        let name = shown(&explanation.instance);
        let summary = match explanation.summary.as_str() {
            "" => String::new(),
            summary => format!(": {}", shown(summary)),
        };
        console.print(&format!("{name} {place}{summary}\n\n"))?;
    }
    console.answer(&explanation)?;
    Ok(())
}
