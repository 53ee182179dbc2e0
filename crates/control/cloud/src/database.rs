//! What is kept for the cloud, in the daemon's database.

mod seal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use muster_store::rusqlite::{self, Connection, OptionalExtension as _, params};
use muster_store::spool::Amount;
use muster_store::{Migration, Schema, Step, Store, StoreError};

use crate::message::Identity;
use crate::message::telemetry::Alert;
use crate::thin::{self, Entry};

pub(crate) use self::seal::{Due, Taken};

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "cloud",
    &[Migration {
        number: 1,
        name: "outbox",
        step: Step::Sql(
            "CREATE TABLE cloud_outbox (
                 id INTEGER PRIMARY KEY AUTOINCREMENT,
                 class INTEGER NOT NULL,
                 key TEXT,
                 txn TEXT,
                 body TEXT NOT NULL
             ) STRICT;
             CREATE INDEX cloud_outbox_waiting ON cloud_outbox (class, id) WHERE txn IS NULL;
             CREATE INDEX cloud_outbox_key ON cloud_outbox (key) WHERE key IS NOT NULL;
             CREATE TABLE cloud_account (
                 class INTEGER PRIMARY KEY,
                 entries INTEGER NOT NULL DEFAULT 0,
                 bytes INTEGER NOT NULL DEFAULT 0,
                 lost_entries INTEGER NOT NULL DEFAULT 0,
                 lost_bytes INTEGER NOT NULL DEFAULT 0,
                 reported INTEGER NOT NULL DEFAULT 0
             ) STRICT;
             INSERT INTO cloud_account (class) VALUES (0), (1), (2), (3);",
        ),
    }],
);

/// Counted for each message on top of its text: what the row and its index entries take.
pub(crate) const ENTRY_COST: u64 = 96;

/// What a message is, in the order in which they go when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What nodes and instances used.
    Monitoring,
    /// Parts of logs.
    Logs,
    /// States, answers and confirmations.
    Answers,
    /// What went wrong.
    Alerts,
}

impl Class {
    /// All of them, in that order.
    pub const ALL: [Self; 4] = [Self::Monitoring, Self::Logs, Self::Answers, Self::Alerts];

    /// A word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Monitoring => "monitoring",
            Self::Logs => "logs",
            Self::Answers => "answers",
            Self::Alerts => "alerts",
        }
    }

    fn number(self) -> i64 {
        match self {
            Self::Monitoring => 0,
            Self::Logs => 1,
            Self::Answers => 2,
            Self::Alerts => 3,
        }
    }

    fn from_number(number: i64) -> Self {
        let found = Self::ALL.into_iter().find(|it| it.number() == number);
        // Of a newer version that went back to this one: kept as long as anything.
        found.unwrap_or(Self::Alerts)
    }
}

/// What was lost, by kind. What was never lost is not listed.
pub type Losses = BTreeMap<Class, Amount>;

/// A message to be kept.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) class: Class,
    /// It takes the place of an unsent one with the same key.
    pub(crate) key: Option<String>,
    /// The message's `data`; of an alert the alert alone.
    pub(crate) body: String,
}

/// See the module documentation. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    store: Store,
    limit: u64,
    /// Samples that were lost before they could be kept, and are not in the account yet.
    unkept: Arc<AtomicU64>,
}

impl Outbox {
    pub(crate) async fn open(store: Store, limit: u64) -> Result<Self, StoreError> {
        let outbox = Self {
            store,
            limit,
            unkept: Arc::default(),
        };
        // The limit may be lower than before.
        outbox.append(Vec::new()).await?;
        Ok(outbox)
    }

    /// Keeps all of them, and drops what there is no room for. Durable when it returns.
    pub(crate) async fn append(&self, rows: Vec<Row>) -> Result<(), StoreError> {
        let limit = self.limit;
        let unkept = self.unkept.swap(0, Ordering::Relaxed);
        let work = move |db: &Connection| {
            let amount = Amount {
                entries: unkept,
                bytes: 0,
            };
            count_loss(db, Class::Monitoring, amount)?;
            for row in &rows {
                insert(db, row)?;
            }
            make_room(db, limit)
        };
        let kept = self.store.write(work).await;
        if kept.is_err() {
            self.unkept.fetch_add(unkept, Ordering::Relaxed);
        }
        kept
    }

    /// Monitoring was lost before it could be kept.
    pub(crate) fn count_unkept(&self) {
        self.unkept.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks messages as on their way: at most `room`, alerts and monitoring put together where they are due.
    pub(crate) async fn take(&self, due: Due, room: usize) -> Result<Vec<Taken>, StoreError> {
        self.store.write(move |db| seal::take(db, due, room)).await
    }

    /// What was on its way when the process ended.
    pub(crate) async fn taken_before(&self) -> Result<Vec<Taken>, StoreError> {
        self.store.read(seal::taken).await
    }

    /// A message's `data`.
    pub(crate) async fn body(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.store
            .read(move |db| {
                let sql = "SELECT body FROM cloud_outbox WHERE id = ?1";
                db.query_row(sql, [id], |row| row.get(0)).optional()
            })
            .await
    }

    /// The cloud has it.
    pub(crate) async fn remove(&self, id: i64) -> Result<(), StoreError> {
        self.store.write(move |db| delete(db, id).map(drop)).await
    }

    /// Tells what was lost and not told yet, as an alert of its own.
    pub(crate) async fn report_losses(&self, node: &str, now: Timestamp) -> Result<(), StoreError> {
        let node = Identity::codename(node);
        self.store
            .write(move |db| report_losses(db, node, now))
            .await
    }

    pub(crate) async fn losses(&self) -> Result<Losses, StoreError> {
        let unkept = self.unkept.load(Ordering::Relaxed);
        let mut losses = self.store.read(losses).await?;
        if unkept > 0 {
            losses.entry(Class::Monitoring).or_default().entries += unkept;
        }
        Ok(losses)
    }

    pub(crate) async fn kept(&self) -> Result<u64, StoreError> {
        let sql = "SELECT sum(entries) FROM cloud_account";
        self.store
            .read(move |db| db.query_row(sql, [], |row| row.get(0)))
            .await
    }
}

fn cost(bytes: usize) -> u64 {
    ENTRY_COST + u64::try_from(bytes).unwrap_or(u64::MAX / 2)
}

fn insert(db: &Connection, row: &Row) -> rusqlite::Result<()> {
    if let Some(key) = &row.key {
        let sql = "SELECT id FROM cloud_outbox WHERE key = ?1 AND txn IS NULL";
        let older: Option<i64> = db.query_row(sql, [key], |row| row.get(0)).optional()?;
        if let Some(older) = older {
            delete(db, older)?;
        }
    }
    db.execute(
        "INSERT INTO cloud_outbox (class, key, body) VALUES (?1, ?2, ?3)",
        params![row.class.number(), row.key, row.body],
    )?;
    account(db, row.class, 1, cost(row.body.len()).cast_signed())
}

/// Takes a message out; says what it was.
fn delete(db: &Connection, id: i64) -> rusqlite::Result<Option<Entry>> {
    let sql = "DELETE FROM cloud_outbox WHERE id = ?1 RETURNING class, octet_length(body)";
    let gone = db.query_row(sql, [id], |row| entry(id, row)).optional()?;
    if let Some(entry) = gone {
        account(db, entry.class, -1, -entry.bytes.cast_signed())?;
    }
    Ok(gone)
}

fn entry(id: i64, row: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id,
        class: Class::from_number(row.get(0)?),
        bytes: cost(row.get(1)?),
    })
}

fn account(db: &Connection, class: Class, entries: i64, bytes: i64) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE cloud_account SET entries = entries + ?2, bytes = bytes + ?3 WHERE class = ?1",
        params![class.number(), entries, bytes],
    )?;
    Ok(())
}

fn count_loss(db: &Connection, class: Class, amount: Amount) -> rusqlite::Result<()> {
    if amount.entries == 0 {
        return Ok(());
    }
    db.execute(
        "UPDATE cloud_account SET lost_entries = lost_entries + ?2, lost_bytes = lost_bytes + ?3 WHERE class = ?1",
        params![class.number(), amount.entries, amount.bytes],
    )?;
    Ok(())
}

/// Drops what is over the limit, and a little more, so that this is not done for every message.
fn make_room(db: &Connection, limit: u64) -> rusqlite::Result<()> {
    let sql = "SELECT sum(bytes) FROM cloud_account";
    let total: u64 = db.query_row(sql, [], |row| row.get(0))?;
    if total <= limit {
        return Ok(());
    }
    let mut waiting = db.prepare(
        "SELECT class, octet_length(body), id FROM cloud_outbox WHERE txn IS NULL ORDER BY id",
    )?;
    let waiting = waiting.query_map([], |row| entry(row.get(2)?, row))?;
    let waiting = waiting.collect::<rusqlite::Result<Vec<_>>>()?;
    for entry in thin::plan(&waiting, total - (limit - limit / 16)) {
        delete(db, entry.id)?;
        let amount = Amount {
            entries: 1,
            bytes: entry.bytes,
        };
        count_loss(db, entry.class, amount)?;
    }
    Ok(())
}

fn losses(db: &Connection) -> rusqlite::Result<Losses> {
    let sql = "SELECT class, lost_entries, lost_bytes FROM cloud_account WHERE lost_entries > 0";
    let mut statement = db.prepare(sql)?;
    let losses = statement.query_map([], |row| {
        let amount = Amount {
            entries: row.get(1)?,
            bytes: row.get(2)?,
        };
        Ok((Class::from_number(row.get(0)?), amount))
    })?;
    losses.collect()
}

fn report_losses(db: &Connection, node: Identity, now: Timestamp) -> rusqlite::Result<()> {
    let sql = "SELECT class, lost_entries - reported FROM cloud_account
               WHERE lost_entries > reported ORDER BY class";
    let mut statement = db.prepare(sql)?;
    let lost = statement.query_map([], |row| {
        let class = Class::from_number(row.get(0)?).as_str();
        let entries: u64 = row.get(1)?;
        Ok(format!("{class} {entries}"))
    })?;
    let lost = lost.collect::<rusqlite::Result<Vec<_>>>()?;
    if lost.is_empty() {
        return Ok(());
    }
    let alert = Alert::CoreAlert {
        timestamp: now,
        node,
        core_component: "CM".to_owned(),
        message: format!(
            "messages were dropped because there was no room while the cloud was away: {}",
            lost.join(", ")
        ),
    };
    let body = serde_json::to_string(&alert)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    insert(
        db,
        &Row {
            class: Class::Alerts,
            key: None,
            body,
        },
    )?;
    db.execute("UPDATE cloud_account SET reported = lost_entries", [])?;
    Ok(())
}
