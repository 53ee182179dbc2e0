//! The table: what is installed, as it came.

use muster_store::rusqlite::{Connection, OptionalExtension};
use muster_store::{Migration, Schema, Step, Store, StoreError};

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "node-config",
    &[Migration {
        number: 1,
        name: "installed",
        // The document is kept as it came, so that a newer program understands more of it.
        step: Step::Sql(
            "CREATE TABLE node_config_installed (
                 id INTEGER PRIMARY KEY CHECK (id = 1),
                 version TEXT NOT NULL,
                 document TEXT NOT NULL
             ) STRICT",
        ),
    }],
);

/// The version and document that are installed.
pub(crate) async fn load(store: &Store) -> Result<Option<(String, String)>, StoreError> {
    let sql = "SELECT version, document FROM node_config_installed";
    let work = move |db: &Connection| {
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    };
    store.read(work).await
}

/// Installs a document instead of the one before.
pub(crate) async fn save(
    store: &Store,
    version: String,
    document: String,
) -> Result<(), StoreError> {
    let sql =
        "INSERT OR REPLACE INTO node_config_installed (id, version, document) VALUES (1, ?1, ?2)";
    let work = move |db: &Connection| db.execute(sql, (version, document)).map(drop);
    store.write(work).await
}
