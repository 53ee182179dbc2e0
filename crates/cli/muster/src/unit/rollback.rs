//! `rollback`: what was wanted before; and `get desired`: what is wanted now.

use muster_control_api::v1;
use serde::Serialize;

use super::facts::{clock, time};
use super::plan::Plan;
use super::{UnitClient, UnitCommandError, apply, connect};
use crate::cli::Output;
use crate::cli::unit as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::shown;

/// What is wanted, and what was.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Desired {
    update: Option<u64>,
    /// As YAML.
    document: Option<String>,
    history: History,
}

/// The newest first.
#[derive(Serialize)]
#[serde(transparent)]
struct History(Vec<Version>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    update: u64,
    applied: Option<String>,
    origin: String,
    name: String,
    current: bool,
}

impl From<v1::GetDesiredResponse> for Desired {
    fn from(answer: v1::GetDesiredResponse) -> Self {
        let current = answer.update_id;
        let version = |it: v1::DesiredVersion| Version {
            update: it.update_id,
            applied: it.applied.and_then(time),
            origin: it.origin,
            name: it.name,
            current: it.update_id == current,
        };
        Self {
            update: Some(current).filter(|&id| id != 0),
            document: Some(answer.document).filter(|text| !text.is_empty()),
            history: History(answer.history.into_iter().map(version).collect()),
        }
    }
}

impl Answer for History {
    fn table(&self) -> Table {
        let row = |it: &Version| {
            vec![
                it.update.to_string(),
                clock(it.applied.as_deref()),
                shown(&it.origin),
                if it.current { "yes" } else { "" }.to_owned(),
                shown(&it.name),
            ]
        };
        Table::list(
            &["UPDATE", "APPLIED", "ORIGIN", "CURRENT", "FROM"],
            self.0.iter().map(row).collect(),
        )
    }
}

impl Answer for Desired {
    fn table(&self) -> Table {
        self.history.table()
    }
}

async fn ask(unit: &UnitClient) -> Result<Desired, UnitCommandError> {
    let request = v1::GetDesiredRequest {};
    let answer = unit
        .ask("GetDesired", async |mut it| it.get_desired(request).await)
        .await?;
    Ok(Desired::from(answer))
}

/// The document as it can be given to `apply` again; with `-o json` also where it is from.
pub(super) async fn desired(unit: &UnitClient, console: &mut Console) -> Result<(), CommandError> {
    let desired = ask(unit).await?;
    match (console.output(), &desired.document) {
        (Output::Json | Output::Name, _) => console.answer(&desired)?,
        (_, Some(document)) => console.print(document)?,
        (_, None) => {
            console.note("Nothing is wanted yet; `muster apply FILE` says what shall run.")
        }
    }
    Ok(())
}

pub(super) async fn rollback(
    rollback: &cli::Rollback,
    console: &mut Console,
) -> Result<(), CommandError> {
    let unit = connect(&rollback.connection).await?;
    if rollback.list {
        console.answer(&ask(&unit).await?.history)?;
        return Ok(());
    }
    let request = v1::RollbackRequest {
        update_id: rollback.id.unwrap_or(0),
        dry_run: rollback.dry_run,
    };
    let answer = unit
        .ask("Rollback", async |mut it| it.rollback(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    let plan = Plan::from(answer);
    apply::finish(&unit, &plan, rollback.dry_run, rollback.waiting, console).await
}
