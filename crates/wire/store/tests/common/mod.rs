//! A small schema and ways to damage files, for several tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use muster_store::rusqlite::{self, Connection};
use muster_store::{Migration, OnDamage, Opened, Schema, Step, Store, StoreConfig};
use tempfile::TempDir;

const CREATE: Migration = Migration {
    number: 1,
    name: "notes",
    step: Step::Sql("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT"),
};
const STAMP: Migration = Migration {
    number: 2,
    name: "length",
    step: Step::Sql(
        "ALTER TABLE notes ADD COLUMN length INTEGER;
         UPDATE notes SET length = length(body);",
    ),
};

pub(crate) static NOTES_V1: Schema = Schema::new("notes", &[CREATE]);
pub(crate) static NOTES_V2: Schema = Schema::new("notes", &[CREATE, STAMP]);

/// A folder with a database in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.folder.path().join("notes.db")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("notes.db-wal")
    }

    pub(crate) fn config(&self, on_damage: OnDamage) -> StoreConfig {
        StoreConfig::new(self.db(), "notes-test 1.0", on_damage).schema(&NOTES_V1)
    }

    pub(crate) fn open(&self) -> Opened {
        Store::open(&self.config(OnDamage::Refuse)).expect("the store opens")
    }

    /// Names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// What a process leaves behind that dies after `rows` commits: a database and its log.
    pub(crate) fn crash_with_rows(&self, rows: usize) {
        let from = Self::new();
        let store = from.open().store;
        for _ in 0..rows {
            store
                .write(|db| add(db, "from the log"))
                .wait()
                .expect("a row");
        }
        fs::copy(from.db(), self.db()).expect("the database");
        fs::copy(from.log(), self.log()).expect("its log");
    }
}

pub(crate) fn add(db: &Connection, body: &str) -> rusqlite::Result<i64> {
    db.execute("INSERT INTO notes (body) VALUES (?1)", [body])?;
    Ok(db.last_insert_rowid())
}

pub(crate) fn count(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))
}

pub(crate) fn rows(store: &Store) -> i64 {
    store.read(count).wait().expect("the rows can be counted")
}

pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("the file to damage");
    bytes[at] ^= 0xff;
    fs::write(path, bytes).expect("the damaged file");
}

/// A file's length and a hash, instead of bytes that nobody can read in a failure; `None` if missing.
pub(crate) fn fingerprint(path: &Path) -> Option<(usize, u64)> {
    let bytes = fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some((bytes.len(), hasher.finish()))
}
