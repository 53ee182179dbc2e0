//! The tables of events and alerts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_control_api::v1;
use muster_store::rusqlite::{self, Connection, params};
use muster_store::{Migration, Schema, Step};
use prost::Message;

/// The tables of events and alerts.
pub static SCHEMA: Schema = Schema::new(
    "control",
    &[Migration {
        number: 1,
        name: "history",
        step: Step::Sql(
            "CREATE TABLE control_events (
                 number INTEGER PRIMARY KEY, kept INTEGER NOT NULL, stamp INTEGER NOT NULL, record BLOB NOT NULL) STRICT;
             CREATE INDEX control_events_kept ON control_events (kept);
             CREATE TABLE control_alerts (
                 number INTEGER PRIMARY KEY, kept INTEGER NOT NULL, stamp INTEGER NOT NULL, record BLOB NOT NULL) STRICT;
             CREATE INDEX control_alerts_kept ON control_alerts (kept);",
        ),
    }],
);

/// What is kept, each kind in a table of its own.
pub(crate) trait Kept: Message + Default + Clone + 'static {
    const TABLE: &'static str;

    /// When it happened, as it says itself.
    fn stamp(&self) -> Option<prost_types::Timestamp>;
}

impl Kept for v1::Event {
    const TABLE: &'static str = "control_events";

    fn stamp(&self) -> Option<prost_types::Timestamp> {
        self.timestamp
    }
}

impl Kept for v1::Alert {
    const TABLE: &'static str = "control_alerts";

    fn stamp(&self) -> Option<prost_types::Timestamp> {
        self.timestamp
    }
}

/// With its number; each next one has the next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbered<T> {
    pub(crate) number: u64,
    pub(crate) value: T,
}

/// Microseconds since 1970; times that do not fit are the nearest that do.
pub(super) fn micros(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |it| -it),
    }
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn newest<T: Kept>(db: &Connection) -> rusqlite::Result<u64> {
    let sql = format!("SELECT coalesce(max(number), 0) FROM {}", T::TABLE);
    let newest: i64 = db.query_row(&sql, [], |row| row.get(0))?;
    Ok(u64::try_from(newest).unwrap_or(0))
}

/// Numbers them from after `newest` on, and answers with the last number.
pub(super) fn insert<T: Kept>(
    db: &Connection,
    newest: u64,
    kept: SystemTime,
    values: &[T],
) -> rusqlite::Result<u64> {
    if values.is_empty() {
        return Ok(newest);
    }
    let sql = format!("INSERT INTO {} VALUES (?1, ?2, ?3, ?4)", T::TABLE);
    let mut statement = db.prepare(&sql)?;
    let mut number = newest;
    for value in values {
        number += 1;
        let stamp = value.stamp().and_then(|it| SystemTime::try_from(it).ok());
        let stamp = stamp.map_or_else(|| micros(kept), micros);
        let row = params![stored(number), micros(kept), stamp, value.encode_to_vec()];
        statement.execute(row)?;
    }
    Ok(number)
}

/// Only so many, and nothing older.
pub(super) fn prune<T: Kept>(
    db: &Connection,
    newest: u64,
    count: u64,
    now: SystemTime,
    age: Duration,
) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {} WHERE number <= ?1", T::TABLE);
    let last = stored(newest.saturating_sub(count));
    db.prepare(&sql)?.execute([last])?;
    let sql = format!("DELETE FROM {} WHERE kept < ?1", T::TABLE);
    let oldest = now.checked_sub(age).map_or(i64::MIN, micros);
    db.prepare(&sql)?.execute([oldest])?;
    Ok(())
}

/// How many were kept since then.
pub(super) fn count_since<T: Kept>(db: &Connection, since: SystemTime) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) FROM {} WHERE kept >= ?1", T::TABLE);
    let count: i64 = db
        .prepare(&sql)?
        .query_row([micros(since)], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

pub(super) fn after<T: Kept>(
    db: &Connection,
    number: u64,
    from: Option<SystemTime>,
    limit: usize,
) -> rusqlite::Result<Vec<Numbered<T>>> {
    let sql = format!(
        "SELECT number, record FROM {} WHERE number > ?1 AND stamp >= ?2 ORDER BY number LIMIT ?3",
        T::TABLE
    );
    select(
        db,
        &sql,
        params![stored(number), from.map_or(i64::MIN, micros), rows(limit)],
    )
}

pub(super) fn last<T: Kept>(
    db: &Connection,
    from: Option<SystemTime>,
    limit: usize,
) -> rusqlite::Result<Vec<Numbered<T>>> {
    let sql = format!(
        "SELECT number, record FROM {} WHERE stamp >= ?1 ORDER BY number DESC LIMIT ?2",
        T::TABLE
    );
    let mut found = select(
        db,
        &sql,
        params![from.map_or(i64::MIN, micros), rows(limit)],
    )?;
    found.reverse();
    Ok(found)
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn select<T: Kept>(
    db: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Numbered<T>>> {
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map(parameters, |row| {
        let (number, record): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let value = T::decode(record.as_slice()).map_err(|error| {
            let kind = rusqlite::types::Type::Blob;
            rusqlite::Error::FromSqlConversionFailure(1, kind, Box::new(error))
        })?;
        let number = u64::try_from(number).unwrap_or(0);
        Ok(Numbered { number, value })
    })?;
    rows.collect()
}
