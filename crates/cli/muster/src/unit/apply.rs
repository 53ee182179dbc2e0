//! `apply` and `diff`: what shall run from now on.

use std::path::Path;

use muster_control_api::v1;

use super::plan::Plan;
use super::{UnitClient, UnitCommandError, connect, document, follow};
use crate::cli::Output;
use crate::cli::unit::{self as cli, Waiting};
use crate::console::Console;
use crate::error::CommandError;

pub(super) async fn apply(apply: &cli::Apply, console: &mut Console) -> Result<(), CommandError> {
    let (unit, plan) = send(&apply.file, apply.dry_run, &apply.connection, console).await?;
    finish(&unit, &plan, apply.dry_run, apply.waiting, console).await
}

pub(super) async fn diff(diff: &cli::Diff, console: &mut Console) -> Result<(), CommandError> {
    let (_, plan) = send(&diff.file, true, &diff.connection, console).await?;
    plan.print(true, console)
}

async fn send(
    file: &Path,
    dry_run: bool,
    connection: &cli::Connection,
    console: &mut Console,
) -> Result<(UnitClient, Plan), UnitCommandError> {
    let document = document::read(file, console)?;
    let unit = connect(connection).await?;
    let request = v1::ApplyRequest {
        document: document.bytes,
        format: document.format.into(),
        name: document.name,
        dry_run,
    };
    let answer = unit
        .ask("Apply", async |mut it| it.apply(request).await)
        .await?;
    Ok((unit, Plan::from(answer)))
}

/// Says what changes and, if that is wanted, waits for it.
pub(super) async fn finish(
    unit: &UnitClient,
    plan: &Plan,
    dry_run: bool,
    waiting: Waiting,
    console: &mut Console,
) -> Result<(), CommandError> {
    plan.print(dry_run, console)?;
    if dry_run {
        return Ok(());
    }
    if waiting.wait {
        // Without a change it is the update that is under way, or the last one, that has to be met.
        let id = plan.update.unwrap_or(0);
        return follow::wait(unit, id, waiting.timeout.get(), console).await;
    }
    if let (Some(id), Output::Table | Output::Wide) = (plan.update, console.output()) {
        console.note(format_args!(
            "Update {id} has begun; `muster status` tells how far it is, and --wait waits for it."
        ));
    }
    Ok(())
}
