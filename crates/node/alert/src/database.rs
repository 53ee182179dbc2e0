//! What is written down beside the alerts themselves: floods, and how far the journal was read.

use std::collections::BTreeMap;

use muster_api::domain::{Alert, AlertKind};
use muster_api::servicemanager::v5 as wire;
use muster_journal::Id128;
use muster_store::spool::{Kind, Spool};
use muster_store::{Migration, Schema, Step};
use prost::Message;
use rusqlite::{Connection, OptionalExtension, params};

use crate::faults;
use crate::merge::{Key, Repeats};

/// The tables of this crate. Alerts are in a [spool](muster_store::spool), whose schema the store needs as well.
pub static SCHEMA: Schema = Schema::new(
    "alert",
    &[Migration {
        number: 1,
        name: "floods and places",
        step: Step::Sql(
            "CREATE TABLE alert_floods (
                 key TEXT PRIMARY KEY,
                 repeats INTEGER NOT NULL,
                 alert BLOB NOT NULL
             ) STRICT, WITHOUT ROWID;
             CREATE TABLE alert_places (
                 source TEXT PRIMARY KEY,
                 number INTEGER NOT NULL,
                 lasting INTEGER NOT NULL
             ) STRICT, WITHOUT ROWID;
             CREATE TABLE alert_settings (
                 name TEXT PRIMARY KEY,
                 value BLOB NOT NULL
             ) STRICT, WITHOUT ROWID;",
        ),
    }],
);

/// How many lost alerts the controller has been told of.
const TOLD_LOST: &str = "told-lost";
/// Entries of the journal that became alerts lately; there from the first look at the journal on.
const RECENT: &str = "recent";

/// How far a source of the journal was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Everything up to this number was read.
    pub(crate) number: u64,
    /// Its files outlive a reboot.
    pub(crate) lasting: bool,
}

/// How far the journal was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JournalChange {
    /// Sources that were read further; `None` for those that are gone.
    pub(crate) places: BTreeMap<Id128, Option<Place>>,
    /// Entries that became alerts lately.
    pub(crate) recent: Vec<u8>,
}

/// How far the journal was read when the last process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JournalPlace {
    pub(crate) places: BTreeMap<Id128, Place>,
    /// Entries that became alerts lately.
    pub(crate) recent: Vec<u8>,
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) told: Vec<Alert>,
    pub(crate) floods: BTreeMap<Key, Option<Repeats>>,
    pub(crate) journal: Option<JournalChange>,
    pub(crate) told_lost: Option<u64>,
}

impl Change {
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
            && self.floods.is_empty()
            && self.journal.is_none()
            && self.told_lost.is_none()
    }

    /// Writes everything; the number of the newest alert, if one was kept.
    pub(crate) fn write(&self, db: &Connection, spool: &Spool) -> rusqlite::Result<Option<i64>> {
        use muster_store::spool::Appended;
        let mut newest = None;
        for alert in &self.told {
            let body = encode(alert);
            if let Appended::Stored { id, .. } = spool.append_in(db, kind_of(&alert.kind), &body)? {
                newest = Some(id.number());
            }
        }
        muster_fault::hit(faults::APPENDED);
        for (key, repeats) in &self.floods {
            match repeats {
                Some(repeats) => db.execute(
                    "INSERT OR REPLACE INTO alert_floods (key, repeats, alert) VALUES (?1, ?2, ?3)",
                    params![key.as_str(), repeats.count, encode(&repeats.last)],
                )?,
                None => db.execute("DELETE FROM alert_floods WHERE key = ?1", [key.as_str()])?,
            };
        }
        if let Some(journal) = &self.journal {
            for (source, place) in &journal.places {
                let source = source.to_string();
                match place {
                    Some(place) => db.execute(
                        "INSERT OR REPLACE INTO alert_places (source, number, lasting)
                         VALUES (?1, ?2, ?3)",
                        params![source, place.number.cast_signed(), place.lasting],
                    )?,
                    None => db.execute("DELETE FROM alert_places WHERE source = ?1", [source])?,
                };
            }
            set(db, RECENT, &journal.recent)?;
        }
        if let Some(told) = self.told_lost {
            set(db, TOLD_LOST, &told.to_le_bytes())?;
        }
        Ok(newest)
    }
}

fn set(db: &Connection, name: &str, value: &[u8]) -> rusqlite::Result<()> {
    db.execute(
        "INSERT OR REPLACE INTO alert_settings (name, value) VALUES (?1, ?2)",
        params![name, value],
    )?;
    Ok(())
}

fn get(db: &Connection, name: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    db.query_row(
        "SELECT value FROM alert_settings WHERE name = ?1",
        [name],
        |row| row.get(0),
    )
    .optional()
}

/// How many lost alerts the controller has been told of.
pub(crate) fn told_lost(db: &Connection) -> rusqlite::Result<u64> {
    let value = get(db, TOLD_LOST)?.unwrap_or_default();
    Ok(value.try_into().map_or(0, u64::from_le_bytes))
}

/// Counts that were not told when the last process ended. A row that makes no sense has nothing to tell.
pub(crate) fn floods(db: &Connection) -> rusqlite::Result<BTreeMap<Key, Repeats>> {
    let mut statement = db.prepare("SELECT key, repeats, alert FROM alert_floods")?;
    let mut rows = statement.query([])?;
    let mut floods = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Some(last) = decode(&row.get::<_, Vec<u8>>(2)?) {
            let count = row.get(1)?;
            floods.insert(Key::from_text(row.get(0)?), Repeats { count, last });
        }
    }
    Ok(floods)
}

/// How far the journal was read when the last process ended; none if nobody ever did.
pub(crate) fn journal(db: &Connection) -> rusqlite::Result<Option<JournalPlace>> {
    let Some(recent) = get(db, RECENT)? else {
        return Ok(None);
    };
    let mut statement = db.prepare("SELECT source, number, lasting FROM alert_places")?;
    let mut rows = statement.query([])?;
    let mut places = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Ok(source) = row.get::<_, String>(0)?.parse() {
            let place = Place {
                number: row.get::<_, i64>(1)?.cast_unsigned(),
                lasting: row.get(2)?,
            };
            places.insert(source, place);
        }
    }
    Ok(Some(JournalPlace { places, recent }))
}

pub(crate) fn encode(alert: &Alert) -> Vec<u8> {
    wire::Alert::from(alert.clone()).encode_to_vec()
}

/// None for bytes that no version of this program has written.
pub(crate) fn decode(body: &[u8]) -> Option<Alert> {
    Alert::try_from(wire::Alert::decode(body).ok()?).ok()
}

/// An instance that screams must not push out what the node itself has to say, and nothing may push out what the
/// controller balances by.
fn kind_of(kind: &AlertKind) -> Kind {
    let (name, priority) = match kind {
        AlertKind::Instance { .. } => ("instance", 0),
        AlertKind::System { .. } => ("system", 1),
        AlertKind::Core { .. } => ("core", 1),
        AlertKind::ResourceAllocate { .. } => ("resource allocation", 2),
        AlertKind::InstanceQuota { .. } => ("instance quota", 2),
        AlertKind::SystemQuota { .. } => ("system quota", 2),
    };
    Kind { name, priority }
}

#[cfg(test)]
mod tests;
