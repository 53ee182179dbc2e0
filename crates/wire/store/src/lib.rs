//! Durable state in SQLite.

#![forbid(unsafe_code)]

mod aside;
mod connection;
mod error;
mod fault;
mod files;
mod inspect;
mod job;
mod migrate;
mod open;
mod schema;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod wal;
mod worker;

pub use error::{Abort, AttemptError, Damage, OpenStoreError, StoreError, UnsafePath};
pub use fault::FAULT_POINTS;
pub use migrate::Migrated;
pub use open::{OnDamage, Opened, Outcome, StoreConfig};
/// Closures work on its `Connection`, and errors carry its `Error`.
pub use rusqlite;
pub use schema::{Migration, Schema, Step};
pub use store::{Request, Store};
