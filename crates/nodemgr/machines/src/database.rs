//! The tables: machines, what happened to them, and pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_provider::MachineId;
use muster_store::rusqlite::{self, Connection};
use muster_store::{Migration, Schema, Step, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::book::{Pool, PoolChange, Saved, Turn};
use crate::error::StartMachinesError;
use crate::event::MachineEvent;
use crate::record::Record;

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "machines",
    &[
        Migration {
            number: 1,
            name: "machines, events and pools",
            step: Step::Sql(
                "CREATE TABLE machines_machine (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
             CREATE TABLE machines_event (
                 number INTEGER PRIMARY KEY,
                 machine TEXT NOT NULL,
                 event TEXT NOT NULL
             ) STRICT;
             CREATE TABLE machines_pool (name TEXT PRIMARY KEY, pool TEXT NOT NULL) STRICT;",
            ),
        },
        // Before, a label was all that told which machines were made to be nodes.
        Migration {
            number: 2,
            name: "which machines are nodes of a Unit",
            step: Step::Sql(
                "UPDATE machines_machine
             SET record = json_set(record, '$.unit', json_extract(record, '$.order.labels.unit'))
             WHERE json_extract(record, '$.order.labels.unit') LIKE '/%'
                 AND json_type(record, '$.phase.made') = 'object';",
            ),
        },
    ],
);

/// What a turn changes, as rows.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    machines: Vec<(String, String)>,
    forgotten: Vec<String>,
    events: Vec<(i64, String, String)>,
    pools: Vec<(String, Option<String>)>,
    /// Events before this one are dropped.
    oldest_event: i64,
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("records of texts, numbers and lists can be written")
}

fn row_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Changes {
    pub(crate) fn new<'a>(
        turn: &Turn,
        record: impl Fn(&MachineId) -> Option<&'a Arc<Record>>,
        events_kept: u32,
    ) -> Self {
        let machines = turn.changed.iter().filter_map(|id| {
            let record = record(id)?;
            Some((id.to_string(), text(record.as_ref())))
        });
        let events = turn.events.iter().map(|event| {
            (
                row_number(event.number),
                event.machine.to_string(),
                text(event),
            )
        });
        let last = turn.events.last().map_or(0, |event| event.number);
        Self {
            machines: machines.collect(),
            forgotten: turn.forgotten.iter().map(ToString::to_string).collect(),
            events: events.collect(),
            pools: turn.pools.iter().map(pool_row).collect(),
            oldest_event: row_number(last.saturating_sub(u64::from(events_kept))),
        }
    }

    fn apply(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut put = db.prepare("INSERT OR REPLACE INTO machines_machine VALUES (?1, ?2)")?;
        for row in &self.machines {
            put.execute((&row.0, &row.1))?;
        }
        for id in &self.forgotten {
            db.execute("DELETE FROM machines_machine WHERE id = ?1", [id])?;
        }
        let mut put = db.prepare("INSERT INTO machines_event VALUES (?1, ?2, ?3)")?;
        for row in &self.events {
            put.execute((row.0, &row.1, &row.2))?;
        }
        db.execute(
            "DELETE FROM machines_event WHERE number < ?1",
            [self.oldest_event],
        )?;
        for (name, pool) in &self.pools {
            match pool {
                Some(pool) => db.execute(
                    "INSERT OR REPLACE INTO machines_pool VALUES (?1, ?2)",
                    (name, pool),
                )?,
                None => db.execute("DELETE FROM machines_pool WHERE name = ?1", [name])?,
            };
        }
        Ok(())
    }
}

fn pool_row(change: &PoolChange) -> (String, Option<String>) {
    match change {
        PoolChange::Set(name, pool) => (name.clone(), Some(text(pool))),
        PoolChange::Removed(name) => (name.clone(), None),
    }
}

/// Writes a turn down; returns when it is on disk.
pub(crate) async fn save(store: &Store, changes: &Arc<Changes>) -> Result<(), StoreError> {
    let changes = Arc::clone(changes);
    store.write(move |db| changes.apply(db)).await
}

struct Rows {
    machines: Vec<(String, String)>,
    pools: Vec<(String, String)>,
    last_event: Option<i64>,
}

fn pairs(db: &Connection, sql: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut query = db.prepare(sql)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Reads everything back.
pub(crate) async fn load(store: &Store) -> Result<Saved, StartMachinesError> {
    let rows = store
        .read(|db| {
            let last = "SELECT max(number) FROM machines_event";
            Ok(Rows {
                machines: pairs(db, "SELECT id, record FROM machines_machine")?,
                pools: pairs(db, "SELECT name, pool FROM machines_pool")?,
                last_event: db.query_row(last, [], |row| row.get(0))?,
            })
        })
        .await
        .map_err(StartMachinesError::Store)?;
    let mut pools = BTreeMap::new();
    for (name, text) in &rows.pools {
        let pool: Pool = read("pool", name, text)?;
        pools.insert(name.clone(), pool);
    }
    let records = rows.machines.iter();
    let records: Result<Vec<Record>, _> = records
        .map(|(id, text)| read("machine", id, text))
        .collect();
    Ok(Saved {
        records: records?,
        pools,
        next_event: rows
            .last_event
            .map_or(1, |last| last.unsigned_abs().saturating_add(1)),
    })
}

fn read<T: DeserializeOwned>(kind: &str, name: &str, text: &str) -> Result<T, StartMachinesError> {
    serde_json::from_str(text).map_err(|source| StartMachinesError::Record {
        object: format!("{kind} {name}"),
        source,
    })
}

/// Events with a number greater than this, the oldest first, at most so many. One that cannot be read was written by a newer
/// version, and is left out.
pub(crate) async fn events_after(
    store: &Store,
    number: u64,
    most: u32,
) -> Result<Vec<MachineEvent>, StoreError> {
    let texts: Vec<String> = store
        .read(move |db| {
            let sql = "SELECT event FROM machines_event WHERE number > ?1 ORDER BY number LIMIT ?2";
            let mut query = db.prepare(sql)?;
            let rows = query.query_map((row_number(number), most), |row| row.get(0))?;
            rows.collect()
        })
        .await?;
    let events = texts.iter();
    Ok(events
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect())
}
