//! The tables: what was wanted, how far the newest is, and which node has what.

mod record;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::domain::{ConvertError, InvalidValue};
use muster_store::rusqlite::{self, Connection};
use muster_store::{Migration, Schema, Step, Store, StoreError};

use self::record::{
    decode_assigned, decode_places, decode_state, encode_assigned, encode_places, encode_state,
};
use crate::document::{Document, InvalidDocument};
use crate::machine::{Change, Origin, Saved, UpdateId, Version};

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "desired",
    &[Migration {
        number: 1,
        name: "versions and state",
        step: Step::Sql(
            "CREATE TABLE desired_versions (
                 id INTEGER PRIMARY KEY,
                 applied INTEGER NOT NULL,
                 origin TEXT NOT NULL,
                 name TEXT NOT NULL,
                 document TEXT NOT NULL,
                 places BLOB NOT NULL
             ) STRICT;
             CREATE TABLE desired_state (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT;",
        ),
    }],
);

const STATE: &str = "state";
const ASSIGNED: &str = "assigned";

/// Why the last state could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The database failed.
    #[error("cannot read the desired status")]
    Store(#[source] StoreError),
    /// A record is not one.
    #[error("the record of {object} cannot be decoded")]
    Decode {
        /// Which record.
        object: String,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// A record says something that cannot be.
    #[error("the record of {object} is not valid")]
    Invalid {
        /// Which record.
        object: String,
        /// What is wrong.
        source: ConvertError,
    },
    /// A record names something by what is no name.
    #[error("the record of {object} holds a name that is none")]
    Value {
        /// Which record.
        object: String,
        /// What is wrong.
        source: InvalidValue,
    },
    /// A kept document is not one.
    #[error("the document of update {update} cannot be read")]
    Parse {
        /// Which one.
        update: UpdateId,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A kept document says something that cannot be.
    #[error("the document of update {update} is not valid")]
    Document {
        /// Which one.
        update: UpdateId,
        /// What is wrong.
        source: InvalidDocument,
    },
    /// A record says something that this version does not know.
    #[error("the record of {object} holds an unknown {what}")]
    Unknown {
        /// Which record.
        object: String,
        /// What.
        what: &'static str,
    },
}

fn milliseconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(milliseconds: i64) -> SystemTime {
    let since = Duration::from_millis(milliseconds.unsigned_abs());
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

/// Writes everything down that was decided together; returns when it is on disk.
pub(crate) async fn save(store: &Store, changes: Vec<Change>) -> Result<(), StoreError> {
    store.write(move |db| apply(db, &changes)).await
}

fn apply(db: &Connection, changes: &[Change]) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            Change::Version(version) => put(db, version)?,
            Change::Forget(id) => db.execute(
                "DELETE FROM desired_versions WHERE id = ?1",
                [id.0.cast_signed()],
            )?,
            Change::State(state) => set(db, STATE, &encode_state(state))?,
            Change::Assigned(assigned) => set(db, ASSIGNED, &encode_assigned(assigned))?,
        };
    }
    Ok(())
}

fn put(db: &Connection, version: &Version) -> rusqlite::Result<usize> {
    let document = serde_json::to_string(&version.desired.document())
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    db.execute(
        "INSERT OR REPLACE INTO desired_versions VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            version.id.0.cast_signed(),
            milliseconds(version.applied),
            version.origin.as_str(),
            &version.name,
            document,
            encode_places(&version.places),
        ),
    )
}

fn set(db: &Connection, name: &str, record: &[u8]) -> rusqlite::Result<usize> {
    let sql = "INSERT OR REPLACE INTO desired_state VALUES (?1, ?2)";
    db.execute(sql, (name, record))
}

type VersionRow = (i64, i64, String, String, String, Vec<u8>);

/// Everything, as it is in the tables.
struct Rows {
    versions: Vec<VersionRow>,
    state: Vec<(String, Vec<u8>)>,
}

/// Reads everything back.
pub(crate) async fn load(store: &Store) -> Result<Saved, LoadError> {
    let rows = store.read(rows).await.map_err(LoadError::Store)?;
    decode(rows)
}

fn rows(db: &Connection) -> rusqlite::Result<Rows> {
    let mut versions = db.prepare(
        "SELECT id, applied, origin, name, document, places FROM desired_versions ORDER BY id",
    )?;
    let versions = versions.query_map([], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
        ))
    })?;
    let versions = versions.collect::<Result<_, _>>()?;
    let mut state = db.prepare("SELECT name, record FROM desired_state")?;
    let state = state.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let state = state.collect::<Result<_, _>>()?;
    Ok(Rows { versions, state })
}

fn decode(rows: Rows) -> Result<Saved, LoadError> {
    let mut saved = Saved::default();
    for row in rows.versions {
        let version = version(row)?;
        saved.versions.insert(version.id, Arc::new(version));
    }
    for (name, record) in rows.state {
        match name.as_str() {
            STATE => saved.state = Some(decode_state(&record)?),
            ASSIGNED => saved.assigned = Some(Arc::new(decode_assigned(&record)?)),
            // Of a newer version that went back to this one.
            _ => {}
        }
    }
    Ok(saved)
}

fn version(row: VersionRow) -> Result<Version, LoadError> {
    let (id, applied, origin, name, document, places) = row;
    let id = UpdateId(id.cast_unsigned());
    let document: Document = serde_json::from_str(&document)
        .map_err(|source| LoadError::Parse { update: id, source })?;
    let desired = document
        .check()
        .map_err(|source| LoadError::Document { update: id, source })?;
    let origin = [Origin::Operator, Origin::Cloud]
        .into_iter()
        .find(|it| it.as_str() == origin)
        .ok_or_else(|| LoadError::Unknown {
            object: format!("update {id}"),
            what: "origin",
        })?;
    Ok(Version {
        id,
        applied: time(applied),
        origin,
        name,
        desired: Arc::new(desired),
        places: decode_places(&places)?,
    })
}
