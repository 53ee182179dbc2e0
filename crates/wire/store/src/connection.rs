//! SQLite connections with Muster's settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// The page cache, in KiB. The rest of the database is cached by the kernel, which can take it back.
const CACHE_KIB: i64 = 512;
/// The log is cut back to this many bytes after a transaction that made it larger.
const LOG_LIMIT: i64 = 4 * 1024 * 1024;
/// Only an operator's tool can hold a lock; daemons are kept apart before SQLite is asked.
const BUSY: Duration = Duration::from_secs(5);

/// What is done for what was acknowledged to survive. The default is all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Durability {
    /// SQLite's `synchronous`.
    pub(crate) synchronous: &'static str,
    /// Whether folders are flushed.
    pub(crate) sync_folder: bool,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            synchronous: "FULL",
            sync_folder: true,
        }
    }
}

/// Opens a file that exists, to look at it: closing the connection changes nothing.
pub(crate) fn open_to_look(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = Connection::open_with_flags(path, flags)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.busy_timeout(BUSY)?;
    // Before the first access: the log's index then lives in memory, no other process can get in
    // between, and no reader can keep the log from being started over.
    db.query_row("PRAGMA locking_mode=EXCLUSIVE", [], |_| Ok(()))?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.query_row("PRAGMA mmap_size=0", [], |_| Ok(()))
        .or_else(no_row_is_fine)?;
    Ok(db)
}

/// Makes a connection that was opened to look ready for work.
pub(crate) fn settle(db: &Connection, durability: Durability) -> rusqlite::Result<()> {
    let mode: String = db.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let message = format!("the write-ahead log cannot be used, journal mode is {mode}");
        return Err(rusqlite::Error::SqliteFailure(code, Some(message)));
    }
    db.pragma_update(None, "synchronous", durability.synchronous)?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.query_row("PRAGMA wal_autocheckpoint=0", [], |_| Ok(()))?;
    db.query_row(
        &format!("PRAGMA journal_size_limit={LOG_LIMIT}"),
        [],
        |_| Ok(()),
    )?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

fn no_row_is_fine(error: rusqlite::Error) -> rusqlite::Result<()> {
    if error == rusqlite::Error::QueryReturnedNoRows {
        Ok(())
    } else {
        Err(error)
    }
}
