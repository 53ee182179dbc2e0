//! A durable queue for what must reach somebody who may be away: alerts, logs, events.
//!
//! A sender appends; whoever delivers reads [`after`](Spool::after) a position, sends, and
//! [confirms](Spool::confirm) what has arrived. An entry stays until it is confirmed, over restarts
//! and power cuts, so it is delivered at least once.
//!
//! The spool is bounded by count and by bytes. When something new does not fit, the oldest entries of
//! the lowest priority make room, but never for something less important than themselves: then the new
//! entry is the one that is dropped. What was dropped is counted by kind, as durably as the entries.
//!
//! [`append_in`](Spool::append_in) appends in the transaction of a change, so that the change and the
//! message about it exist both or not at all.
//!
//! A store that is used with it has [`SCHEMA`] among its schemas. Several spools share one database
//! by name.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StoreError;
use crate::schema::{Migration, Schema, Step};
use crate::store::{Request, Store};

/// The spool's tables.
pub static SCHEMA: Schema = Schema::new(
    "spool",
    &[Migration {
        number: 1,
        name: "entries",
        step: Step::Sql(include_str!("spool/v1.sql")),
    }],
);

/// Counted for each entry on top of its body: what the row and its index entries take.
pub const ENTRY_COST: u64 = 64;
/// Bodies in one answer of [`Spool::after`], in bytes, unless a single one is larger.
pub const BATCH_BYTES: usize = 1024 * 1024;

/// What an entry is, and how important.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name in the count of losses.
    pub name: &'static str,
    /// The larger, the longer it is kept when space is short.
    pub priority: u8,
}

/// How much a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries, at most.
    pub entries: u64,
    /// Bytes, at most; each entry counts its body and [`ENTRY_COST`].
    pub bytes: u64,
}

/// An entry's place in the order of appending. Never used again, even after the entry is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(i64);

impl EntryId {
    /// Before every entry.
    pub const START: Self = Self(0);

    /// The id with a number that came from [`number`](Self::number).
    #[must_use]
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// A number for messages and logs.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }
}

/// What became of something appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is in the spool; `dropped` others made room.
    Stored {
        /// Its place.
        id: EntryId,
        /// How many were dropped for it.
        dropped: u64,
    },
    /// It was dropped and counted: all that could make room is more important, or it is larger than
    /// the whole spool.
    NoRoom,
}

/// Something in the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub id: EntryId,
    /// The name of its kind.
    pub kind: String,
    /// Its content.
    pub body: Vec<u8>,
}

/// How much there is, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Entries.
    pub entries: u64,
    /// Their bytes, with [`ENTRY_COST`] for each.
    pub bytes: u64,
}

/// A durable queue in a store.
#[derive(Debug, Clone)]
pub struct Spool {
    store: Store,
    name: &'static str,
    limits: Limits,
}

impl Spool {
    /// The spool of that name in a store. Smaller limits than before take effect with the next entry.
    #[must_use]
    pub fn new(store: Store, name: &'static str, limits: Limits) -> Self {
        Self {
            store,
            name,
            limits,
        }
    }

    /// Appends, durably.
    pub fn append(&self, kind: Kind, body: Vec<u8>) -> Request<Result<Appended, StoreError>> {
        let spool = self.clone();
        self.store.write(move |db| spool.append_in(db, kind, &body))
    }

    /// Appends in the transaction of another change, durable with it.
    ///
    /// # Errors
    /// When a statement fails; the change must then be given up.
    pub fn append_in(
        &self,
        db: &Connection,
        kind: Kind,
        body: &[u8],
    ) -> rusqlite::Result<Appended> {
        let size = cost(body.len());
        let Some(dropped) = self.make_room(db, kind, size)? else {
            self.count_loss(
                db,
                kind.name,
                Amount {
                    entries: 1,
                    bytes: size,
                },
            )?;
            return Ok(Appended::NoRoom);
        };
        db.execute(
            "INSERT INTO spool_entries (spool, kind, priority, body) VALUES (?1, ?2, ?3, ?4)",
            params![self.name, kind.name, kind.priority, body],
        )?;
        let id = EntryId(db.last_insert_rowid());
        let total = self.total(db)?;
        let total = Amount {
            entries: total.entries + 1,
            bytes: total.bytes + size,
        };
        self.set_total(db, total)?;
        Ok(Appended::Stored { id, dropped })
    }

    /// The oldest entries after a place, at most `limit` and about [`BATCH_BYTES`] of them.
    pub fn after(&self, place: EntryId, limit: usize) -> Request<Result<Vec<Entry>, StoreError>> {
        let name = self.name;
        self.store.read(move |db| {
            let mut statement = db.prepare(
                "SELECT id, kind, body FROM spool_entries WHERE spool = ?1 AND id > ?2 ORDER BY id",
            )?;
            let mut rows = statement.query(params![name, place.0])?;
            let mut entries = Vec::new();
            let mut bytes = 0;
            while entries.len() < limit
                && bytes < BATCH_BYTES
                && let Some(row) = rows.next()?
            {
                let entry = Entry {
                    id: EntryId(row.get(0)?),
                    kind: row.get(1)?,
                    body: row.get(2)?,
                };
                bytes += entry.body.len();
                entries.push(entry);
            }
            Ok(entries)
        })
    }

    /// Forgets everything up to and with an entry: it has arrived. Answers how much that was.
    pub fn confirm(&self, up_to: EntryId) -> Request<Result<Amount, StoreError>> {
        let spool = self.clone();
        self.store.write(move |db| {
            let gone = db.query_row(
                "SELECT count(*), coalesce(sum(length(body)), 0) FROM spool_entries
                 WHERE spool = ?1 AND id <= ?2",
                params![spool.name, up_to.0],
                |row| {
                    let entries: u64 = row.get(0)?;
                    Ok(Amount {
                        entries,
                        bytes: row.get::<_, u64>(1)? + entries * ENTRY_COST,
                    })
                },
            )?;
            db.execute(
                "DELETE FROM spool_entries WHERE spool = ?1 AND id <= ?2",
                params![spool.name, up_to.0],
            )?;
            let total = spool.total(db)?;
            spool.set_total(db, total.less(gone))?;
            Ok(gone)
        })
    }

    /// What was ever dropped, by the name of its kind.
    pub fn lost(&self) -> Request<Result<BTreeMap<String, Amount>, StoreError>> {
        let name = self.name;
        self.store.read(move |db| {
            let mut statement =
                db.prepare("SELECT kind, entries, bytes FROM spool_lost WHERE spool = ?1")?;
            let amount = |row: &rusqlite::Row<'_>| {
                Ok((
                    row.get(0)?,
                    Amount {
                        entries: row.get(1)?,
                        bytes: row.get(2)?,
                    },
                ))
            };
            statement.query_map([name], amount)?.collect()
        })
    }

    /// What is in the spool.
    pub fn held(&self) -> Request<Result<Amount, StoreError>> {
        let spool = self.clone();
        self.store.read(move |db| spool.total(db))
    }

    /// Drops what has to go for an entry of that kind and size, and says how many; `None`, and
    /// nothing dropped, when that cannot be.
    fn make_room(&self, db: &Connection, kind: Kind, size: u64) -> rusqlite::Result<Option<u64>> {
        let before = self.total(db)?;
        let mut total = before;
        let fits = |total: Amount| {
            total.entries < self.limits.entries
                && total.bytes.saturating_add(size) <= self.limits.bytes
        };
        if fits(total) {
            return Ok(Some(0));
        }
        let mut losses: BTreeMap<String, Amount> = BTreeMap::new();
        let mut victims = Vec::new();
        {
            let mut statement = db.prepare(
                "SELECT id, kind, length(body) FROM spool_entries
                 WHERE spool = ?1 AND priority <= ?2 ORDER BY priority, id",
            )?;
            let mut rows = statement.query(params![self.name, kind.priority])?;
            while !fits(total)
                && let Some(row) = rows.next()?
            {
                let one = Amount {
                    entries: 1,
                    bytes: cost(row.get::<_, usize>(2)?),
                };
                victims.push(row.get::<_, i64>(0)?);
                total = total.less(one);
                let loss = losses.entry(row.get(1)?).or_default();
                *loss = Amount {
                    entries: loss.entries + 1,
                    bytes: loss.bytes + one.bytes,
                };
            }
        }
        if !fits(total) {
            return Ok(None);
        }
        let mut delete = db.prepare("DELETE FROM spool_entries WHERE id = ?1")?;
        for id in &victims {
            delete.execute([id])?;
        }
        for (kind, loss) in &losses {
            self.count_loss(db, kind, *loss)?;
        }
        self.set_total(db, total)?;
        Ok(Some(before.entries - total.entries))
    }

    fn count_loss(&self, db: &Connection, kind: &str, loss: Amount) -> rusqlite::Result<()> {
        db.execute(
            "INSERT INTO spool_lost (spool, kind, entries, bytes) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET entries = entries + ?3, bytes = bytes + ?4",
            params![self.name, kind, loss.entries, loss.bytes],
        )?;
        Ok(())
    }

    fn total(&self, db: &Connection) -> rusqlite::Result<Amount> {
        let total = db
            .query_row(
                "SELECT entries, bytes FROM spool_totals WHERE spool = ?1",
                [self.name],
                |row| {
                    Ok(Amount {
                        entries: row.get(0)?,
                        bytes: row.get(1)?,
                    })
                },
            )
            .optional()?;
        Ok(total.unwrap_or_default())
    }

    fn set_total(&self, db: &Connection, total: Amount) -> rusqlite::Result<()> {
        db.execute(
            "INSERT INTO spool_totals (spool, entries, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET entries = ?2, bytes = ?3",
            params![self.name, total.entries, total.bytes],
        )?;
        Ok(())
    }
}

impl Amount {
    fn less(self, gone: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(gone.entries),
            bytes: self.bytes.saturating_sub(gone.bytes),
        }
    }
}

fn cost(length: usize) -> u64 {
    ENTRY_COST.saturating_add(u64::try_from(length).unwrap_or(u64::MAX))
}
