//! Durable state of Muster's daemons, in SQLite.
//!
//! What a daemon acknowledges must be there after a `kill -9`, a power cut, an upgrade and a
//! downgrade attempt, and when the disk damages the file the daemon must say so instead of starting
//! over in silence. This crate is the one place where that is solved.
//!
//! ```
//! use muster_store::{Migration, OnDamage, Schema, Step, Store, StoreConfig};
//!
//! static SCHEMA: Schema = Schema::new("doc", &[Migration {
//!     number: 1,
//!     name: "instances",
//!     step: Step::Sql("CREATE TABLE doc_instances (id TEXT PRIMARY KEY, state TEXT) STRICT"),
//! }]);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("servicemanager.db");
//! let config = StoreConfig::new(path, "muster-sm 0.1.0", OnDamage::StartEmpty).schema(&SCHEMA);
//! let opened = Store::open(&config)?;          // opened.outcome: tell the controller if state is gone
//! let store = opened.store;
//!
//! // Returns when the row is on the disk. In async code: `.await` instead of `.wait()`.
//! store.write(|db| db.execute("INSERT INTO doc_instances VALUES ('a', 'active')", [])).wait()?;
//! let count: i64 = store
//!     .read(|db| db.query_row("SELECT count(*) FROM doc_instances", [], |row| row.get(0)))
//!     .wait()?;
//! assert_eq!(count, 1);
//! store.close().wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Entry points
//! * [`Store::open`] with a [`StoreConfig`] gives [`Opened`]: the store, and the [`Outcome`].
//! * [`Store::write`], [`Store::attempt`] and [`Store::read`] take a closure over a
//!   [`rusqlite::Connection`] and give a [`Request`], which is awaited, or waited for.
//! * [`spool::Spool`] is a bounded durable queue on top.
//! * `testing::check_upgrades` (feature `testing`) checks old versions of a schema.
//!
//! # The thread
//! One thread, `store`, owns the connection. Its input is a bounded queue (256 jobs; callers wait when
//! it is full), its output the answer to each request, over a channel of its own. Nobody else touches
//! the database. Jobs run in the order in which they were handed in, so a read sees the writes before
//! it. A second connection for reads would cost memory in every daemon and save a read at most the
//! time of one flush; daemons keep what they read often in memory.
//!
//! Writes that wait while a flush runs share the next one: one transaction, a savepoint for each, one
//! commit, and then all are answered. A write that fails or panics undoes itself only. (Where panics
//! abort, as in release builds, a panic ends the daemon, and nothing unacknowledged stays.) The
//! exception is SQLite's: when the disk is full or fails, it gives the whole transaction up, and every
//! write in it gets the same typed error. A full disk is an error that passes: the store works again
//! when there is space.
//!
//! # Invariants
//! * **Acknowledged is durable.** The log is flushed (`synchronous=FULL`) before an answer. Closures
//!   can neither end the transaction nor change a setting; SQLite's authorizer refuses it.
//! * **One owner.** A lock of the kernel on `NAME.lock` is held from before the first look until after
//!   the close; it cannot be stale. SQLite's own exclusive mode keeps other tools out, and with them
//!   readers that would keep the log from being started over.
//! * **Complete or absent.** A database gets its name when it is complete and flushed. An empty file
//!   under that name is therefore damage, not a fresh start.
//! * **Old or new.** A migration and its record are one transaction.
//! * **Refusing changes nothing.** A database from a newer program, with an edited migration, of
//!   another program, or damaged under [`OnDamage::Refuse`], is left byte for byte as it is.
//! * **Bounded.** 512 KiB of page cache and no memory map; the log is copied into the database from
//!   4 MiB on, after the answers are out, and cut back to 4 MiB after a larger transaction.
//!
//! # Damage
//! At every open the header and the log are examined; a log that was damaged before its end is
//! told from one whose end was torn by a power cut, which SQLite does not do. The content is checked
//! in full (`quick_check`, about 1 ms per MB from memory) when the store was not closed cleanly, when
//! damage had been seen in use, and always up to 16 MiB. A larger database that was closed cleanly
//! opens in a few milliseconds; damage of the medium that came later is found in use as
//! [`StoreError::Damaged`], and the next open then checks in full.
//!
//! Under [`OnDamage::StartEmpty`] the database and its log are renamed together
//! (`NAME.damaged-TIME-N`), a new one is made, and the caller gets [`Outcome::SetAside`]. A note
//! makes that survive a kill at any moment: the next open goes on, and reports. Nothing is salvaged
//! and **no copy is ever deleted by Muster**; [`Store::set_aside_copies`] lists them for a daemon to
//! report and an operator to remove.
//!
//! # Security
//! Files are 0600, folders that are made 0700; wider permissions found are taken away. The
//! database's files must be regular files of the daemon's own user: a symbolic link could make a
//! privileged daemon write elsewhere. The folder must be the user's own or root's, and not writable by
//! others, since whoever can write there can replace the database. Links in the folder's path are
//! followed, so state can live on another disk.
//!
//! # How to add a migration
//! 1. Append a [`Migration`] with the next number to the schema. Never edit a released one: every
//!    database that has applied it refuses to open with [`OpenStoreError::Edited`].
//! 2. Adapt the rows that the schema's `sample` function inserts, if they no longer fit.
//! 3. Run the schema's `check_upgrades` test once with `MUSTER_FIXTURES=write`: it writes
//!    `vN.sql` for the new version. Commit it, and never change it afterwards.
//! 4. Extend the test's check with what must have become of the old rows.
//!
//! # What this crate does not do
//! It does not salvage damaged databases, does not encrypt, does not replicate, and does not
//! downgrade. It does not protect against a disk that says flushed and has not.

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
pub mod spool;
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
