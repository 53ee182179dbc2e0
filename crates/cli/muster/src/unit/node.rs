//! What of `muster node` is the Communication Manager's: pause, resume and drain.

use muster_control_api::v1;

use super::plan::{Placement, Placements};
use super::{UnitClient, UnitCommandError};
use crate::cli::Output;
use crate::console::Console;
use crate::error::CommandError;

/// Pauses a node, or lets it take work again.
pub(crate) async fn set_paused(
    unit: &UnitClient,
    node: &str,
    paused: bool,
) -> Result<(), UnitCommandError> {
    let request = v1::SetNodePausedRequest {
        node_id: node.to_owned(),
        paused,
    };
    unit.ask("SetNodePaused", async |mut it| {
        it.set_node_paused(request).await
    })
    .await?;
    Ok(())
}

/// Moves away what can be moved, and says where to.
pub(crate) async fn drain(
    unit: &UnitClient,
    node: &str,
    dry_run: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::DrainNodeRequest {
        node_id: node.to_owned(),
        dry_run,
    };
    let answer = unit
        .ask("DrainNode", async |mut it| it.drain_node(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    let placements: Vec<Placement> = (answer.placements.into_iter())
        .map(Placement::from)
        .collect();
    let for_people = matches!(console.output(), Output::Table | Output::Wide);
    if placements.is_empty() && for_people {
        console.print(&format!("Nothing runs on {node} that has to move.\n"))?;
    } else {
        console.answer(&Placements(placements))?;
    }
    if !dry_run {
        console.note(format_args!(
            "{node} is paused; `muster node resume {node}` lets it take work again."
        ));
    }
    Ok(())
}
