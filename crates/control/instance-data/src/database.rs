//! The table: which state of each instance the cloud has.

use std::collections::BTreeMap;

use muster_api::domain::InstanceIdent;
use muster_store::rusqlite::Connection;
use muster_store::{Migration, Schema, Step, Store, StoreError};

use crate::folders::relative;
use crate::follow::Checksum;

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "instance-data",
    &[Migration {
        number: 1,
        name: "accepted states",
        step: Step::Sql(
            "CREATE TABLE instance_data_state (
                 path TEXT PRIMARY KEY,
                 checksum BLOB NOT NULL
             ) STRICT",
        ),
    }],
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
