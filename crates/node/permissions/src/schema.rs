//! The table.

use muster_store::{Migration, Schema, Step};

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "permissions",
    &[Migration {
        number: 1,
        name: "instances",
        // `ident` is `item:subject:instance`; `registration` the encoded RegisterInstanceRequest.
        step: Step::Sql(
            "CREATE TABLE permissions_instances (
                 ident TEXT PRIMARY KEY NOT NULL,
                 nonce BLOB NOT NULL,
                 secret_hash BLOB NOT NULL UNIQUE,
                 registration BLOB NOT NULL
             ) STRICT, WITHOUT ROWID",
        ),
    }],
);
