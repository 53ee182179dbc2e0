CREATE TABLE spool_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    spool TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX spool_entries_in_order ON spool_entries (spool, id);
CREATE INDEX spool_entries_to_drop ON spool_entries (spool, priority, id);
CREATE TABLE spool_totals (
    spool TEXT PRIMARY KEY,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE spool_lost (
    spool TEXT NOT NULL,
    kind TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (spool, kind)
) STRICT, WITHOUT ROWID;
