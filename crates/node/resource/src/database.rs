//! The table: who has what.

use std::collections::BTreeSet;

use muster_api::common::v2 as common;
use muster_api::domain::{ConvertError, InstanceIdent};
use muster_store::rusqlite::{self, Connection};
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message;

use crate::ledger::Ledger;

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "resource",
    &[Migration {
        number: 1,
        name: "holds",
        // `ident` is `item:subject:instance`; `record` a `HoldRecord`.
        step: Step::Sql(
            "CREATE TABLE resource_holds (
                 ident TEXT PRIMARY KEY NOT NULL,
                 record BLOB NOT NULL
             ) STRICT, WITHOUT ROWID",
        ),
    }],
);

/// Why it is not known who has what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadHoldsError {
    /// The database failed.
    #[error("cannot read who has which resources")]
    Store(#[source] StoreError),
    /// A record is not one.
    #[error("the record of the resources of {ident} cannot be decoded")]
    Decode {
        /// Whose record.
        ident: String,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// A record names an instance that cannot be.
    #[error("the record of the resources of {ident} names no instance")]
    Instance {
        /// Whose record.
        ident: String,
        /// What is wrong.
        source: ConvertError,
    },
}

#[derive(Clone, PartialEq, Message)]
struct HoldRecord {
    #[prost(message, optional, tag = "1")]
    instance: Option<common::InstanceIdent>,
    #[prost(string, repeated, tag = "2")]
    resources: Vec<String>,
}

/// Who has what.
pub(crate) async fn load(store: &Store) -> Result<Ledger, LoadHoldsError> {
    let work = |db: &Connection| {
        let mut statement = db.prepare("SELECT ident, record FROM resource_holds")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<Vec<(String, Vec<u8>)>>>()
    };
    let rows = store.read(work).await.map_err(LoadHoldsError::Store)?;
    let mut ledger = Ledger::default();
    for (ident, record) in rows {
        let record = match HoldRecord::decode(record.as_slice()) {
            Ok(record) => record,
            Err(source) => return Err(LoadHoldsError::Decode { ident, source }),
        };
        match InstanceIdent::try_from(record.instance.unwrap_or_default()) {
            Ok(instance) => ledger.hold(&instance, record.resources.into_iter().collect()),
            Err(source) => return Err(LoadHoldsError::Instance { ident, source }),
        }
    }
    Ok(ledger)
}

/// From now on the instance has exactly these.
pub(crate) async fn hold(
    store: &Store,
    instance: &InstanceIdent,
    names: &BTreeSet<String>,
) -> Result<(), StoreError> {
    let record = HoldRecord {
        instance: Some(instance.clone().into()),
        resources: names.iter().cloned().collect(),
    };
    let (ident, record) = (instance.to_string(), record.encode_to_vec());
    let sql = "INSERT OR REPLACE INTO resource_holds (ident, record) VALUES (?1, ?2)";
    let work = move |db: &Connection| db.execute(sql, (ident, record)).map(drop);
    store.write(work).await
}

/// From now on these instances have nothing.
pub(crate) async fn release(store: &Store, instances: &[InstanceIdent]) -> Result<(), StoreError> {
    let idents: Vec<String> = instances.iter().map(ToString::to_string).collect();
    let work = move |db: &Connection| {
        let mut statement = db.prepare("DELETE FROM resource_holds WHERE ident = ?1")?;
        for ident in idents {
            statement.execute([ident])?;
        }
        Ok(())
    };
    store.write(work).await
}
