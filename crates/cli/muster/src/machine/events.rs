//! What happened, to machines and in runs.

use jiff::Timestamp;
use muster_machine_api::v1;
use tonic::Streaming;

use super::MachineCommandError;
use super::client::Manager;
use super::facts::EventFacts;
use crate::call::Peer;
use crate::cli::machine as cli;
use crate::console::{Console, Table};
use crate::error::CommandError;
use crate::unit::facts::{Listed, Listing};

pub(super) async fn events(
    manager: &Manager,
    events: cli::Events,
    console: &mut Console,
) -> Result<(), CommandError> {
    let call = "ReadEvents";
    let request = v1::ReadEventsRequest {
        after: events.after,
        follow: events.follow,
        machine: events.machine.unwrap_or_default(),
    };
    let stream = manager.ask(call, async |mut it| it.read_events(request).await);
    let stream = stream.await.map_err(MachineCommandError::Call)?;
    show(call, stream, events.follow, console).await?;
    match events.follow {
        // Machines have no last event.
        true => Err(MachineCommandError::Call(Peer::NodeManager.ended(call)).into()),
        false => Ok(()),
    }
}

/// Prints events as they come, or all of them at once.
pub(super) async fn show<T: Into<EventFacts>>(
    call: &'static str,
    mut stream: Streaming<T>,
    follow: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let failed = |status| MachineCommandError::Call(Peer::NodeManager.failed(call, status));
    let mut all: Vec<EventFacts> = Vec::new();
    // Columns for what is likely to come.
    let widths = [
        "12345",
        "2026-01-01T00:00:00",
        "m-0123456789abcdef",
        "interrupted",
        "",
    ];
    let row = widths.iter().map(|&it| it.to_owned()).collect();
    let layout = Table::list(EventFacts::COLUMNS, vec![row]).layout();
    while let Some(event) = stream.message().await.map_err(failed)? {
        let event: EventFacts = event.into();
        if follow {
            let paint = console.paint();
            console.line(&event, || layout.line(&event.row(Timestamp::now()), paint))?;
        } else {
            all.push(event);
        }
    }
    if follow {
        return Ok(());
    }
    if all.is_empty() {
        console.note("Nothing happened.");
    }
    Ok(console.answer(&Listing(all))?)
}
