//! Durable commits per second through the store and through bare rusqlite with the same settings, in
//! turns on the same disk; and how long a database of 100 MB takes to open.
//!
//! `cargo bench -p muster-store`; `MUSTER_BENCH_FOLDER` chooses the disk, `MUSTER_BENCH_SECONDS` how
//! long each row is measured (default 2).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use muster_store::rusqlite::{Connection, Result};
use muster_store::{Migration, OnDamage, Schema, Step, Store, StoreConfig};

static SCHEMA: Schema = Schema::new(
    "bench",
    &[Migration {
        number: 1,
        name: "rows",
        step: Step::Sql("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"),
    }],
);

const SLICES: u32 = 10;

fn insert(db: &Connection, size: usize) -> Result<()> {
    db.execute("INSERT INTO rows (body) VALUES (randomblob(?1))", [size])?;
    Ok(())
}

fn open(path: &Path) -> Store {
    let config = StoreConfig::new(path, "bench", OnDamage::Refuse).schema(&SCHEMA);
    Store::open(&config).expect("the store opens").store
}

/// Commits per second by `writers` threads that each call `commit` again and again.
fn rate(writers: usize, time: Duration, commit: impl Fn() + Sync) -> f64 {
    let stop = AtomicBool::new(false);
    let commits = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    commit();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    #[expect(clippy::cast_precision_loss, reason = "a rate for a table")]
    let commits = commits.load(Ordering::Relaxed) as f64;
    commits / started.elapsed().as_secs_f64()
}

/// Both in turns, in short slices: what else the disk does meanwhile then hits both alike.
fn compare(folder: &Path, writers: usize, time: Duration) -> (f64, f64) {
    let store = open(&folder.join(format!("store-{writers}.db")));
    let bare = Mutex::new(open_bare(&folder.join(format!("bare-{writers}.db"))));
    let (mut through_bare, mut through_store) = (0.0, 0.0);
    for _ in 0..SLICES {
        through_bare += rate(writers, time / SLICES, || {
            let mut db = bare.lock().expect("no panics");
            let transaction = db.transaction().expect("a transaction");
            insert(&transaction, 200).expect("a row");
            transaction.commit().expect("a commit");
        });
        through_store += rate(writers, time / SLICES, || {
            store.write(|db| insert(db, 200)).wait().expect("a commit");
        });
    }
    (
        through_bare / f64::from(SLICES),
        through_store / f64::from(SLICES),
    )
}

fn open_bare(path: &Path) -> Connection {
    let db = Connection::open(path).expect("a database");
    db.execute_batch(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
         CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL);",
    )
    .expect("the same settings");
    db
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = work();
    (started.elapsed(), result)
}

fn open_times(folder: &Path) {
    let path = folder.join("large.db");
    let store = open(&path);
    for _ in 0..25 {
        let some = |db: &Connection| (0..1000).try_for_each(|_| insert(db, 4000));
        store.write(some).wait().expect("rows");
    }
    store.close().wait().expect("a clean close");
    let bytes = fs::metadata(&path).expect("the database").len();
    let (clean, store) = timed(|| open(&path));
    store.write(|db| insert(db, 10)).wait().expect("a row");
    let copy = folder.join("crashed.db");
    fs::copy(&path, &copy).expect("a copy");
    fs::copy(folder.join("large.db-wal"), folder.join("crashed.db-wal")).expect("its log");
    let (checked, _store) = timed(|| open(&copy));
    println!("\nopening {} MB", bytes / 1_000_000);
    println!("  after a clean close              {clean:>10.1?}");
    println!("  after a crash (checked in full)  {checked:>10.1?}");
}

fn main() {
    let seconds = env::var("MUSTER_BENCH_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(2));
    let base = env::var_os("MUSTER_BENCH_FOLDER").map_or_else(env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(base).expect("a folder for the benchmark");
    println!("durable commits per second");
    println!(
        "{:>8} {:>14} {:>14} {:>8}",
        "writers", "bare rusqlite", "muster-store", "ratio"
    );
    for writers in [1, 16] {
        let (bare, store) = compare(folder.path(), writers, time);
        println!(
            "{writers:>8} {bare:>14.0} {store:>14.0} {:>8.2}",
            store / bare
        );
    }
    open_times(folder.path());
}
