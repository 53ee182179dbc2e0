//! The accounts in the node's database.

use std::collections::BTreeMap;

use muster_store::{Migration, Schema, Step, Store, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::account::{Account, Used};
use crate::ledger::{Accounts, Holder};

/// The tables of traffic accounting.
pub static SCHEMA: Schema = Schema::new(
    "traffic",
    &[Migration {
        number: 1,
        name: "accounts",
        step: Step::Sql(
            "CREATE TABLE trafficmonitor (
                 chain TEXT PRIMARY KEY,
                 time INTEGER NOT NULL,
                 value INTEGER NOT NULL,
                 day INTEGER NOT NULL,
                 day_value INTEGER NOT NULL,
                 month INTEGER NOT NULL,
                 month_value INTEGER NOT NULL,
                 counter INTEGER NOT NULL
             ) STRICT;
             CREATE TABLE traffic_boot (boot TEXT NOT NULL) STRICT;",
        ),
    }],
);

/// Of which boot the kernel's counters are; others say nothing about what was counted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootId(pub(crate) String);

const DIRECTIONS: [&str; 2] = ["in", "out"];

/// Reads everything back.
pub(crate) async fn load(
    store: &Store,
    boot: &BootId,
) -> Result<BTreeMap<Holder, Accounts>, StoreError> {
    let boot = boot.0.clone();
    store.read(move |db| read(db, &boot)).await
}

fn read(db: &Connection, boot: &str) -> rusqlite::Result<BTreeMap<Holder, Accounts>> {
    let written: Option<String> = db
        .query_row("SELECT boot FROM traffic_boot", [], |row| row.get(0))
        .optional()?;
    let same_boot = written.as_deref() == Some(boot);
    let mut accounts: BTreeMap<Holder, Accounts> = BTreeMap::new();
    let mut rows = db.prepare(
        "SELECT chain, time, value, day, day_value, month, month_value, counter FROM trafficmonitor",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let chain: String = row.get(0)?;
        let bytes = |index| -> rusqlite::Result<u64> {
            Ok(u64::try_from(row.get::<_, i64>(index)?).unwrap_or_default())
        };
        let account = Account {
            total: bytes(2)?,
            today: Used {
                period: row.get(3)?,
                bytes: bytes(4)?,
            },
            this_month: Used {
                period: row.get(5)?,
                bytes: bytes(6)?,
            },
            counter: if same_boot { bytes(7)? } else { 0 },
        };
        // A name that is none comes from a version that knows more.
        let Some((direction, Ok(holder))) = chain
            .split_once('_')
            .map(|(direction, holder)| (direction, holder.parse()))
        else {
            continue;
        };
        let entry = accounts.entry(holder).or_default();
        entry.seen = entry.seen.max(row.get(1)?);
        match direction {
            "in" => entry.download = account,
            "out" => entry.upload = account,
            _ => {}
        }
    }
    Ok(accounts)
}

/// Writes all accounts down, and takes the forgotten ones out; returns when that is on disk.
pub(crate) async fn save(
    store: &Store,
    boot: &BootId,
    accounts: BTreeMap<Holder, Accounts>,
    forgotten: Vec<Holder>,
) -> Result<(), StoreError> {
    let boot = boot.0.clone();
    store
        .write(move |db| write(db, &boot, &accounts, &forgotten))
        .await
}

fn write(
    db: &Connection,
    boot: &str,
    accounts: &BTreeMap<Holder, Accounts>,
    forgotten: &[Holder],
) -> rusqlite::Result<()> {
    db.execute("DELETE FROM traffic_boot", [])?;
    db.execute("INSERT INTO traffic_boot VALUES (?1)", [boot])?;
    let mut put = db
        .prepare("INSERT OR REPLACE INTO trafficmonitor VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    for (holder, both) in accounts {
        for (direction, account) in DIRECTIONS.into_iter().zip([both.download, both.upload]) {
            put.execute((
                format!("{direction}_{holder}"),
                both.seen,
                signed(account.total),
                account.today.period,
                signed(account.today.bytes),
                account.this_month.period,
                signed(account.this_month.bytes),
                signed(account.counter),
            ))?;
        }
    }
    let mut remove = db.prepare("DELETE FROM trafficmonitor WHERE chain = ?1")?;
    for holder in forgotten {
        for direction in DIRECTIONS {
            remove.execute([format!("{direction}_{holder}")])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
