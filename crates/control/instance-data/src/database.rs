//! The tables: which state of each instance the cloud has, and whose states are followed.

use std::collections::BTreeMap;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
use muster_store::rusqlite::Connection;
use muster_store::{Migration, Schema, Step, Store, StoreError};

use crate::folders::relative;
use crate::follow::Checksum;

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "instance-data",
    &[
        Migration {
            number: 1,
            name: "accepted states",
            step: Step::Sql(
                "CREATE TABLE instance_data_state (
                 path TEXT PRIMARY KEY,
                 checksum BLOB NOT NULL
             ) STRICT",
            ),
        },
        Migration {
            number: 2,
            name: "followed states",
            step: Step::Sql(
                "CREATE TABLE instance_data_followed (
                 path TEXT PRIMARY KEY,
                 item TEXT NOT NULL,
                 subject TEXT NOT NULL,
                 instance INTEGER NOT NULL,
                 component INTEGER NOT NULL,
                 preinstalled INTEGER NOT NULL,
                 state_limit INTEGER NOT NULL
             ) STRICT",
            ),
        },
    ],
);

/// All accepted checksums, by the instance's path. What cannot be read is left out: the state is then offered again.
pub(crate) async fn load(store: &Store) -> Result<BTreeMap<String, Checksum>, StoreError> {
    let rows: Vec<(String, Vec<u8>)> = store
        .read(|db: &Connection| {
            let mut query = db.prepare("SELECT path, checksum FROM instance_data_state")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .await?;
    let sums = rows.into_iter();
    Ok(sums
        .filter_map(|(path, sum)| Some((path, Checksum::from_bytes(&sum)?)))
        .collect())
}

pub(crate) async fn save(
    store: &Store,
    instance: &InstanceIdent,
    checksum: Checksum,
) -> Result<(), StoreError> {
    let path = relative(instance);
    let sql = "INSERT OR REPLACE INTO instance_data_state (path, checksum) VALUES (?1, ?2)";
    let work = move |db: &Connection| db.execute(sql, (path, checksum.as_bytes())).map(drop);
    store.write(work).await
}

pub(crate) async fn forget(store: &Store, instance: &InstanceIdent) -> Result<(), StoreError> {
    let path = relative(instance);
    let sql = "DELETE FROM instance_data_state WHERE path = ?1";
    let work = move |db: &Connection| db.execute(sql, [path]).map(drop);
    store.write(work).await
}

/// Whose states are followed, with the most that each may have. What cannot be read is left out: it is followed again when the
/// instance is next prepared.
pub(crate) async fn followed(store: &Store) -> Result<BTreeMap<InstanceIdent, u64>, StoreError> {
    let rows: Vec<(String, String, i64, bool, bool, i64)> = store
        .read(|db: &Connection| {
            let sql = "SELECT item, subject, instance, component, preinstalled, state_limit
                       FROM instance_data_followed";
            let mut query = db.prepare(sql)?;
            let rows = query.query_map([], |row| row.try_into())?;
            rows.collect()
        })
        .await?;
    let read = |(item, subject, instance, component, preinstalled, limit)| {
        let item: String = item;
        let subject: String = subject;
        let ident = InstanceIdent {
            item_id: ItemId::new(&item).ok()?,
            subject_id: SubjectId::new(&subject).ok()?,
            instance: u64::try_from(instance).ok()?,
            item_type: match component {
                true => ItemType::Component,
                false => ItemType::Service,
            },
            preinstalled,
        };
        Some((ident, u64::try_from(limit).ok()?))
    };
    let rows: Vec<_> = rows.into_iter().filter_map(read).collect();
    Ok(rows.into_iter().collect())
}

pub(crate) async fn follow(
    store: &Store,
    instance: &InstanceIdent,
    limit: u64,
) -> Result<(), StoreError> {
    let (path, instance) = (relative(instance), instance.clone());
    let sql = "INSERT OR REPLACE INTO instance_data_followed VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let work = move |db: &Connection| {
        let row = (
            path,
            instance.item_id.as_str(),
            instance.subject_id.as_str(),
            number(instance.instance),
            instance.item_type == ItemType::Component,
            instance.preinstalled,
            number(limit),
        );
        db.execute(sql, row).map(drop)
    };
    store.write(work).await
}

pub(crate) async fn unfollow(store: &Store, instance: &InstanceIdent) -> Result<(), StoreError> {
    let path = relative(instance);
    let sql = "DELETE FROM instance_data_followed WHERE path = ?1";
    let work = move |db: &Connection| db.execute(sql, [path]).map(drop);
    store.write(work).await
}

/// As the database counts.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
