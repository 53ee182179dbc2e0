//! Messages on their way: what is kept gets the name by which the cloud acknowledges it, and keeps it.

use muster_store::rusqlite::{self, Connection, params};
use muster_store::spool::Amount;
use uuid::Uuid;

use super::{Class, account, cost, count_loss, delete};
use crate::message::Outgoing;
use crate::message::telemetry::MonitoringData;

/// Alerts, or samples of monitoring, in one message.
const TOGETHER: usize = 256;
/// Bytes in one such message, unless one entry has more.
const TOGETHER_BYTES: usize = 256 * 1024;

/// What is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Due {
    pub(crate) alerts: bool,
    pub(crate) monitoring: bool,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) id: i64,
    pub(crate) class: Class,
    pub(crate) txn: String,
}

pub(super) fn taken(db: &Connection) -> rusqlite::Result<Vec<Taken>> {
    let sql = "SELECT id, class, txn FROM cloud_outbox WHERE txn IS NOT NULL ORDER BY id";
    let mut statement = db.prepare(sql)?;
    let taken = statement.query_map([], |row| {
        Ok(Taken {
            id: row.get(0)?,
            class: Class::from_number(row.get(1)?),
            txn: row.get(2)?,
        })
    })?;
    taken.collect()
}

pub(super) fn take(db: &Connection, due: Due, room: usize) -> rusqlite::Result<Vec<Taken>> {
    let mut taken = Vec::new();
    let batched = [
        (Class::Alerts, due.alerts),
        (Class::Monitoring, due.monitoring),
    ];
    for (class, _) in batched.into_iter().filter(|(_, due)| *due) {
        if taken.len() < room
            && let Some((id, txn)) = together(db, class)?
        {
            taken.push(Taken { id, class, txn });
        }
    }
    let mut statement = db.prepare(
        "SELECT id FROM cloud_outbox WHERE txn IS NULL AND class = ?1 ORDER BY id LIMIT ?2",
    )?;
    for class in [Class::Answers, Class::Logs] {
        let left = i64::try_from(room.saturating_sub(taken.len())).unwrap_or(i64::MAX);
        let ids = statement.query_map(params![class.number(), left], |row| row.get(0))?;
        for id in ids.collect::<rusqlite::Result<Vec<i64>>>()? {
            let txn = name(db, id)?;
            taken.push(Taken { id, class, txn });
        }
    }
    Ok(taken)
}

fn name(db: &Connection, id: i64) -> rusqlite::Result<String> {
    let txn = Uuid::new_v4().to_string();
    let sql = "UPDATE cloud_outbox SET txn = ?2 WHERE id = ?1";
    db.execute(sql, params![id, txn])?;
    Ok(txn)
}

/// Makes one message of the oldest entries of a kind, in the place of the first.
fn together(db: &Connection, class: Class) -> rusqlite::Result<Option<(i64, String)>> {
    let mut statement = db.prepare(
        "SELECT id, body FROM cloud_outbox WHERE txn IS NULL AND class = ?1 ORDER BY id LIMIT ?2",
    )?;
    let mut rows = statement.query(params![class.number(), TOGETHER])?;
    let mut found: Vec<(i64, String)> = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let body: String = row.get(1)?;
        bytes += body.len();
        if bytes > TOGETHER_BYTES && !found.is_empty() {
            break;
        }
        found.push((row.get(0)?, body));
    }
    drop(rows);
    let Some(&(first, _)) = found.first() else {
        return Ok(None);
    };
    for (id, _) in &found {
        delete(db, *id)?;
    }
    let bodies: Vec<String> = found.into_iter().map(|(_, body)| body).collect();
    let body = match class {
        Class::Monitoring => merged_monitoring(db, bodies)?,
        _ => format!(
            r#"{{"messageType":"alerts","items":[{}]}}"#,
            bodies.join(",")
        ),
    };
    db.execute(
        "INSERT INTO cloud_outbox (id, class, body) VALUES (?1, ?2, ?3)",
        params![first, class.number(), body],
    )?;
    account(db, class, 1, cost(body.len()).cast_signed())?;
    Ok(Some((first, name(db, first)?)))
}

fn merged_monitoring(db: &Connection, bodies: Vec<String>) -> rusqlite::Result<String> {
    let mut merged = MonitoringData::default();
    for body in bodies {
        match serde_json::from_str(&body) {
            Ok(data) => merged.merge(data),
            Err(_) => count_loss(
                db,
                Class::Monitoring,
                Amount {
                    entries: 1,
                    bytes: cost(body.len()),
                },
            )?,
        }
    }
    Ok(Outgoing::Monitoring(merged).data(None))
}
