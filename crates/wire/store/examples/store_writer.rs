//! A small daemon's use of a store, for tests that kill it: opens, writes from several threads, closes.
//!
//! `store_writer PATH VERSION ROWS`: opens the database at PATH with version 1 or 2 of the schema,
//! starting empty if it is damaged, and writes ROWS rows. What it prints has happened: `opened HOW`,
//! `row NUMBER` for each acknowledged row, `closed`.

use std::io::{self, Write};
use std::sync::Mutex;
use std::thread;

use muster_store::rusqlite::Connection;
use muster_store::{Migration, OnDamage, Outcome, Schema, Step, Store, StoreConfig};

const WRITERS: usize = 4;
/// Large enough for the log to be copied into the database once while a test runs.
const BODY: usize = 100_000;

const CREATE: Migration = Migration {
    number: 1,
    name: "rows",
    step: Step::Sql("CREATE TABLE rows (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT"),
};
const SIZES: Migration = Migration {
    number: 2,
    name: "sizes",
    step: Step::Sql(
        "ALTER TABLE rows ADD COLUMN size INTEGER;
         UPDATE rows SET size = length(body);",
    ),
};

static V1: Schema = Schema::new("rows", &[CREATE]);
static V2: Schema = Schema::new("rows", &[CREATE, SIZES]);

/// Written past every buffer, so that a kill cannot hide what was said, nor say more than happened.
fn say(line: &str) {
    static OUT: Mutex<()> = Mutex::new(());
    let _turn = OUT.lock().expect("nobody panics while saying something");
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn insert(db: &Connection, number: i64) -> muster_store::rusqlite::Result<()> {
    db.execute(
        "INSERT INTO rows (number, body) VALUES (?1, zeroblob(?2))",
        (number, BODY),
    )?;
    Ok(())
}

fn main() {
    muster_fault::init(&[muster_store::FAULT_POINTS]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, version, rows] = arguments.as_slice() else {
        panic!("PATH VERSION ROWS")
    };
    let schema = if version == "1" { &V1 } else { &V2 };
    let rows: i64 = rows.parse().expect("a number of rows");

    let config = StoreConfig::new(path, "store_writer 1", OnDamage::StartEmpty).schema(schema);
    let opened = Store::open(&config).expect("the store opens");
    match opened.outcome {
        Outcome::Created => say("opened created"),
        Outcome::Existing { .. } => say("opened existing"),
        Outcome::SetAside { .. } => say("opened set-aside"),
    }
    let last = |db: &Connection| {
        db.query_row("SELECT coalesce(max(number), 0) FROM rows", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    let first = opened.store.read(last).wait().expect("the last row") + 1;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = opened.store.clone();
            scope.spawn(move || {
                for number in (first..first + rows).skip(writer).step_by(WRITERS) {
                    store
                        .write(move |db| insert(db, number))
                        .wait()
                        .expect("a row");
                    say(&format!("row {number}"));
                }
            });
        }
    });
    opened.store.close().wait().expect("a clean close");
    say("closed");
}
