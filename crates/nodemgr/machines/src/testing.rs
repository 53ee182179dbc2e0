//! What tests of managers share.
//!
//! A crate that makes machines has an example program that starts a [`Keeper`] with its provider, does what it is told, step by
//! step, and says what has happened; and a test that kills the program ([`command`]), starts it again ([`run_to_end`]) and
//! compares [`records`] with what the provider has.

mod keeper;

use std::error::Error;
use std::future::Future;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_provider::{MachineSpec, ProviderId, Purchase};
use muster_store::rusqlite::Connection;
use muster_store::{OnDamage, Store, StoreConfig};

pub use self::keeper::Keeper;
use crate::{MachineOrder, Record, SCHEMA};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a keeper ended early.
pub type KeeperError = Box<dyn Error + Send + Sync>;

/// Tells the test that something has happened.
///
/// # Errors
/// When nobody listens.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}

/// A plain order.
#[must_use]
pub fn order(provider: ProviderId, spec: MachineSpec, key: Option<&str>) -> MachineOrder {
    MachineOrder {
        provider,
        template: "test".to_owned(),
        spec,
        purchase: Purchase::OnDemand,
        labels: Default::default(),
        timers: Default::default(),
        key: key.map(ToOwned::to_owned),
        asked: None,
    }
}

/// A keeper's program, without a fault that is meant for somebody else.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("MUSTER_FAULT").stderr(Stdio::inherit());
    command
}

/// Runs a keeper to its end, and gives what it said.
///
/// # Panics
/// When it fails.
#[track_caller]
pub fn run_to_end(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("the keeper starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?} after {said}", output.status);
    said.lines().map(ToOwned::to_owned).collect()
}

fn database(folder: &Path) -> PathBuf {
    folder.join("state/machines.db")
}

/// What a keeper that has ended knew of its machines.
///
/// # Errors
/// When its database cannot be read.
pub fn records(folder: &Path) -> Result<Vec<Record>, KeeperError> {
    let config = StoreConfig::new(database(folder), "look", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))?.store;
    let read = store.read(|db: &Connection| {
        let mut query = db.prepare("SELECT record FROM machines_machine")?;
        query.query_map([], |row| row.get(0))?.collect()
    });
    let texts: Vec<String> = read.wait()?;
    store.close().wait()?;
    let records = texts.iter().map(|text| serde_json::from_str(text));
    Ok(records.collect::<Result<_, _>>()?)
}

/// Fails the test instead of waiting for ever.
///
/// # Panics
/// When it takes far too long.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it takes far too long")
}

/// Looks until something holds.
///
/// # Panics
/// When it never does.
pub async fn eventually(mut holds: impl FnMut() -> bool) {
    let look = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    in_time(look).await;
}
