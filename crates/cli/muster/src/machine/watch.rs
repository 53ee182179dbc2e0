//! `--watch`, where the manager does not tell of changes by itself: it is asked again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::MachineCommandError;
use crate::call::CallError;
use crate::cli::Output;
use crate::console::{Answer, Console};
use crate::error::CommandError;
use crate::unit::facts::Listed;
use crate::unit::watch::Watcher;

/// How often it is asked: it is on this machine.
const EVERY: Duration = Duration::from_secs(1);

/// What tells whether something has changed.
fn print_of(thing: &impl Serialize) -> String {
    serde_json::to_string(thing).expect("answers are plain data")
}

/// Shows a list, and then every change of it, until the manager or the reader goes away.
pub(super) async fn list<T: Listed>(
    mut ask: impl AsyncFnMut() -> Result<Vec<T>, CallError>,
    console: &mut Console,
) -> Result<(), CommandError> {
    let mut watcher = Watcher::<T>::new(console.output());
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut synced = false;
    loop {
        let things = ask().await.map_err(MachineCommandError::Call)?;
        let now: BTreeMap<String, String> =
            things.iter().map(|it| (it.key(), print_of(it))).collect();
        for thing in things {
            let key = thing.key();
            if known.get(&key) != now.get(&key) {
                watcher.set(thing, console)?;
            }
        }
        for gone in known.keys().filter(|key| !now.contains_key(*key)) {
            watcher.gone(gone, console)?;
        }
        if !std::mem::replace(&mut synced, true) {
            watcher.synced(console)?;
        }
        known = now;
        tokio::time::sleep(EVERY).await;
    }
}

/// Shows one thing again whenever it has changed, until nothing more will become of it.
pub(super) async fn one<T: Answer>(
    mut ask: impl AsyncFnMut() -> Result<T, CallError>,
    is_over: impl Fn(&T) -> bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let mut known = String::new();
    loop {
        let thing = ask().await.map_err(MachineCommandError::Call)?;
        let print = print_of(&thing);
        if print != known {
            match console.output() {
                Output::Json | Output::Yaml => console.line(&thing, String::new)?,
                Output::Table | Output::Wide | Output::Name => {
                    if !known.is_empty() && console.output() != Output::Name {
                        console.print("\n")?;
                    }
                    console.answer(&thing)?;
                    console.flush()?;
                }
            }
            known = print;
        }
        if is_over(&thing) {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}
