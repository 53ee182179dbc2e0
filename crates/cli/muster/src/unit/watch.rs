//! `--watch`: everything that is there, and then every change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_control_api::v1::{self, watch_event::Event};
use serde::Serialize;
use tonic::Streaming;

use super::facts::{Listed, Listing, row};
use super::get::{Kind, News};
use super::{UnitClient, UnitCommandError};
use crate::call::{CallError, Peer};
use crate::cli::Output;
use crate::console::{Console, Layout, OutputClosed};
use crate::error::CommandError;

/// A change, as programs get it: `event` is `set`, `gone` or, once everything that was there at the beginning has been told, `synced`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a, T> {
    event: &'static str,
    kind: &'static str,
    /// What tells it from others of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a T>,
}

/// Follows what is wanted, until the reader or the Unit goes away.
pub(super) async fn watch<T: Kind>(
    unit: &UnitClient,
    wanted: impl Fn(&T) -> bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    loop {
        let ended = once(unit, &wanted, console).await;
        match ended {
            // It was too much at once; what is there now says everything.
            Err(Ended::Call(error)) if error.is_begin_again() => {}
            Err(Ended::Call(error)) => return Err(UnitCommandError::Call(error).into()),
            Err(Ended::Closed(closed)) => return Err(closed.into()),
            Ok(()) => return Ok(()),
        }
    }
}

/// Why a watch ended.
enum Ended {
    Call(CallError),
    Closed(OutputClosed),
}

impl From<OutputClosed> for Ended {
    fn from(closed: OutputClosed) -> Self {
        Self::Closed(closed)
    }
}

async fn once<T: Kind>(
    unit: &UnitClient,
    wanted: &impl Fn(&T) -> bool,
    console: &mut Console,
) -> Result<(), Ended> {
    let request = v1::WatchRequest {
        kinds: vec![T::WATCHED.into()],
    };
    let mut stream: Streaming<v1::WatchEvent> = unit
        .ask("Watch", async |mut client| client.watch(request).await)
        .await
        .map_err(Ended::Call)?;
    let mut watcher = Watcher::<T>::new(console.output());
    let failed = |status| Ended::Call(Peer::Unit.failed("Watch", status));
    while let Some(event) = stream.message().await.map_err(failed)? {
        if matches!(event.event, Some(Event::Synced(_))) {
            watcher.synced(console)?;
            continue;
        }
        match T::news(event) {
            Some(News::Set(thing)) if wanted(&thing) => watcher.set(thing, console)?,
            // It is there, and is not wanted any more.
            Some(News::Set(thing)) => watcher.gone(&thing.key(), console)?,
            Some(News::Gone(key)) => watcher.gone(&key, console)?,
            None => {}
        }
    }
    Err(Ended::Call(Peer::Unit.ended("Watch")))
}

/// What was told so far.
pub(crate) struct Watcher<T> {
    /// The row of each thing that is there, or nothing for programs.
    known: BTreeMap<String, Option<Vec<String>>>,
    /// Things that are told together when all of them are known.
    first: Vec<T>,
    layout: Option<Layout>,
    output: Output,
    synced: bool,
}

impl<T: Listed> Watcher<T> {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            known: BTreeMap::new(),
            first: Vec::new(),
            layout: None,
            output,
            synced: false,
        }
    }

    fn wide(&self) -> bool {
        self.output == Output::Wide
    }

    fn for_people(&self) -> bool {
        matches!(self.output, Output::Table | Output::Wide)
    }

    fn row_of(&self, thing: &T) -> Option<Vec<String>> {
        let row = || row(thing, Timestamp::now(), self.wide());
        self.for_people().then(row)
    }

    pub(crate) fn set(&mut self, thing: T, console: &mut Console) -> Result<(), OutputClosed> {
        if T::PASSES {
            let row = self.row_of(&thing);
            self.known.insert(thing.key(), row);
        }
        if self.for_people() && !self.synced {
            // The columns are as wide as the widest of the first ones.
            self.first.push(thing);
            return Ok(());
        }
        self.tell("set", &thing.key(), Some(&thing), console)
    }

    pub(crate) fn gone(&mut self, key: &str, console: &mut Console) -> Result<(), OutputClosed> {
        match self.known.remove(key) {
            None => Ok(()),
            Some(_) if self.for_people() && !self.synced => {
                self.first.retain(|thing| thing.key() != key);
                Ok(())
            }
            Some(row) => {
                if let (Some(layout), Some(mut row)) = (&self.layout, row) {
                    let state = T::COLUMNS.iter().position(|&name| name == "STATE");
                    let column = state.unwrap_or(row.len() - 1);
                    row[column] = "gone".to_owned();
                    let line = layout.line(&row, console.paint());
                    console.print(&line)?;
                    return console.flush();
                }
                self.tell("gone", key, None, console)
            }
        }
    }

    pub(crate) fn synced(&mut self, console: &mut Console) -> Result<(), OutputClosed> {
        self.synced = true;
        if self.for_people() {
            let listing = Listing(std::mem::take(&mut self.first));
            let table = listing.render(Timestamp::now(), self.wide());
            self.layout = Some(table.layout());
            console.print(&table.render(console.paint()))?;
            return console.flush();
        }
        if self.output == Output::Name {
            return Ok(());
        }
        let change = Change::<T> {
            event: "synced",
            kind: T::KIND,
            key: None,
            object: None,
        };
        console.line(&change, String::new)
    }

    fn tell(
        &self,
        event: &'static str,
        key: &str,
        object: Option<&T>,
        console: &mut Console,
    ) -> Result<(), OutputClosed> {
        let change = Change {
            event,
            kind: T::KIND,
            key: Some(key),
            object,
        };
        let paint = console.paint();
        let for_people = || match (&self.layout, object) {
            (Some(layout), Some(thing)) => {
                layout.line(&row(thing, Timestamp::now(), self.wide()), paint)
            }
            _ => key.to_owned(),
        };
        console.line(&change, for_people)
    }
}
