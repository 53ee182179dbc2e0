//! `events`: what happened.

use jiff::Timestamp;
use muster_control_api::v1;
use tonic::Streaming;

use super::facts::{EventFacts, Listed, Listing, to_wire};
use super::{UnitClient, UnitCommandError, connect};
use crate::call::Peer;
use crate::cli::unit as cli;
use crate::console::Console;
use crate::error::CommandError;

async fn read(
    unit: &UnitClient,
    from: Option<Timestamp>,
    follow: bool,
) -> Result<Streaming<v1::Event>, UnitCommandError> {
    let request = v1::ReadEventsRequest {
        from: from.map(to_wire),
        follow,
    };
    let stream = unit
        .ask("ReadEvents", async |mut it| it.read_events(request).await)
        .await?;
    Ok(stream)
}

async fn next(stream: &mut Streaming<v1::Event>) -> Result<Option<EventFacts>, UnitCommandError> {
    let next = stream.message().await;
    let next = next.map_err(|status| Peer::Unit.failed("ReadEvents", status))?;
    Ok(next.map(EventFacts::from))
}

/// Everything that is kept of what is wanted.
pub(super) async fn of(
    unit: &UnitClient,
    wanted: impl Fn(&EventFacts) -> bool,
) -> Result<Vec<EventFacts>, UnitCommandError> {
    let mut stream = read(unit, None, false).await?;
    let mut all = Vec::new();
    while let Some(event) = next(&mut stream).await? {
        if wanted(&event) {
            all.push(event);
        }
    }
    Ok(all)
}

pub(super) async fn events(
    events: &cli::Events,
    console: &mut Console,
) -> Result<(), CommandError> {
    let unit = connect(&events.connection).await?;
    let from = events.since.map(|since| since.time(Timestamp::now()));
    let mut stream = read(&unit, from, events.follow).await?;
    let wanted = |event: &EventFacts| event.warning || !events.warnings;
    if events.follow {
        // The columns of the kinds and states that there are.
        let widest = EventFacts {
            time: Some(Timestamp::now().to_string()),
            kind: "instance".to_owned(),
            name: " ".repeat(24),
            message: String::new(),
            warning: true,
        };
        let layout = Listing(vec![widest])
            .render(Timestamp::now(), false)
            .layout();
        while let Some(event) = next(&mut stream).await? {
            if wanted(&event) {
                let paint = console.paint();
                console.line(&event, || layout.line(&event.row(Timestamp::now()), paint))?;
            }
        }
        let call = "ReadEvents";
        return Err(UnitCommandError::Call(Peer::Unit.ended(call)).into());
    }
    let mut all = Vec::new();
    while let Some(event) = next(&mut stream).await? {
        if wanted(&event) {
            all.push(event);
        }
    }
    if all.is_empty() {
        console.note("Nothing happened.");
    }
    console.answer(&Listing(all))?;
    Ok(())
}
