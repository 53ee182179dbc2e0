//! Power cuts: what was acknowledged is on the disk, not only in the kernel's cache. And the proof that
//! the tests would notice: with a flush left out, they find the loss.

mod common;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use common::{NOTES_V1, fingerprint};
use muster_lab::powercut::{
    Ack, CheckFailure, CutReport, CutTest, CutTestError, LoggedDisk, ack, reexec, role,
};
use muster_store::rusqlite::Connection;
use muster_store::testing::Weakness;
use muster_store::{OnDamage, Outcome, Store, StoreConfig, StoreError};

const WRITERS: u32 = 3;
const ROWS: u32 = 36;

fn db(folder: &Path) -> PathBuf {
    folder.join("state/notes.db")
}

fn config(folder: &Path, weakness: Option<Weakness>) -> StoreConfig {
    let config = StoreConfig::new(db(folder), "power-test 1", OnDamage::StartEmpty);
    let config = config.schema(&NOTES_V1);
    match weakness {
        Some(weakness) => config.weakened(weakness),
        None => config,
    }
}

/// The program under test: acknowledges how it opened the store, and each row after its commit.
fn write_rows(folder: &Path, weakness: Option<Weakness>) {
    let opened = Store::open(&config(folder, weakness)).expect("the store opens");
    let how = match &opened.outcome {
        Outcome::SetAside { .. } => "set-aside",
        _ => "opened",
    };
    ack(how).expect("the rig listens");
    let rig = Mutex::new(());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, rig) = (opened.store.clone(), &rig);
            scope.spawn(move || {
                for number in (writer..ROWS).step_by(WRITERS as usize) {
                    let body = format!("{number} {}", "x".repeat(2000));
                    let insert = move |db: &Connection| common::add(db, &body);
                    store.write(insert).wait().expect("a row");
                    let _turn = rig.lock().expect("nobody panics here");
                    ack(&format!("row {number}")).expect("the rig listens");
                }
            });
        }
    });
    opened.store.close().wait().expect("a clean close");
}

fn check_rows(folder: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    if acks.is_empty() {
        return Ok(());
    }
    let opened = Store::open(&config(folder, None))?;
    if !matches!(opened.outcome, Outcome::Existing { .. }) {
        return Err(format!("found it {:?}", opened.outcome).into());
    }
    let numbers = |db: &Connection| {
        let mut statement = db.prepare("SELECT body FROM notes")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<muster_store::rusqlite::Result<Vec<_>>>()
    };
    let bodies = opened.store.read(numbers).wait()?;
    for acknowledged in acks.iter().filter_map(|ack| ack.text.strip_prefix("row ")) {
        let expected = format!("{acknowledged} {}", "x".repeat(2000));
        if !bodies.contains(&expected) {
            return Err(format!("row {acknowledged} is missing").into());
        }
    }
    Ok(())
}

fn cut(test: &'static str, seed: u64, cuts: usize) -> Result<CutReport, CutTestError> {
    CutTest::new(|mount: &Path| reexec(test, "writer", mount), check_rows)
        .rounds(cuts)
        .seed(seed)
        .run()
}

#[test]
fn acknowledged_rows_survive_a_power_cut() {
    if let Some(role) = role() {
        return write_rows(&role.folder, None);
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let first = muster_lab::seed();
    for round in 0..muster_lab::rounds(5, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        let report = cut("acknowledged_rows_survive_a_power_cut", seed, 12).unwrap();
        assert_eq!(report.acks.len(), 1 + ROWS as usize);
    }
}

/// Without flushes the same test fails: it can tell the difference.
#[test]
fn commits_that_are_not_flushed_are_found() {
    if let Some(role) = role() {
        return write_rows(&role.folder, Some(Weakness::NoFlush));
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    match cut("commits_that_are_not_flushed_are_found", 1, 12) {
        Err(CutTestError::Lost(cut, loss)) => println!("found: {cut}: {loss}"),
        other => panic!("no loss was found: {other:?}"),
    }
}

const BROKEN: &str = "this was a database";
const BROKEN_LOG: &str = "this was its log";

fn prepare_damage(mount: &Path) -> io::Result<()> {
    let path = db(mount);
    fs::create_dir_all(path.parent().expect("a folder"))?;
    fs::write(&path, BROKEN)?;
    fs::write(path.with_file_name("notes.db-wal"), BROKEN_LOG)
}

/// The damaged database is somewhere, as a whole; once reported, it is where the report says.
fn check_damage(folder: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    let state = db(folder).with_file_name("");
    let mut kept = Vec::new();
    for entry in fs::read_dir(&state)? {
        let path = entry?.path();
        let content = fs::read(&path)?;
        if content == BROKEN.as_bytes() || content == BROKEN_LOG.as_bytes() {
            kept.push((
                path.file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned(),
                path,
            ));
        }
    }
    if kept.len() != 2 {
        return Err(format!("kept: {kept:?}").into());
    }
    if !acks.is_empty() {
        if !kept
            .iter()
            .all(|(name, _)| name.starts_with("notes.db.damaged-"))
        {
            return Err(format!("reported as set aside, but found as {kept:?}").into());
        }
        return check_rows(folder, acks);
    }
    // Nothing was reported: the next start reports it.
    let opened = Store::open(&config(folder, None))?;
    match opened.outcome {
        Outcome::SetAside { paths, .. } if paths.iter().all(|path| fingerprint(path).is_some()) => {
            Ok(())
        }
        // After the note is gone, a cut can come before the report.
        Outcome::Existing { .. } if opened.store.set_aside_copies()?.len() == 1 => Ok(()),
        outcome => Err(format!("found it {outcome:?}").into()),
    }
}

fn cut_damaged(test: &'static str, seed: u64, cuts: usize) -> Result<CutReport, CutTestError> {
    CutTest::new(|mount: &Path| reexec(test, "writer", mount), check_damage)
        .rounds(cuts)
        .seed(seed)
        .run_prepared(prepare_damage)
}

#[test]
fn a_damaged_database_survives_a_power_cut() {
    if let Some(role) = role() {
        return write_rows(&role.folder, None);
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let first = muster_lab::seed();
    for round in 0..muster_lab::rounds(5, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        cut_damaged("a_damaged_database_survives_a_power_cut", seed, 12).unwrap();
    }
}

#[test]
fn a_set_aside_that_is_not_flushed_is_found() {
    if let Some(role) = role() {
        return write_rows(&role.folder, Some(Weakness::NoFolderFlush));
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    // Half of the cuts are at acknowledgements; with this many, the first one is among them.
    match cut_damaged(
        "a_set_aside_that_is_not_flushed_is_found",
        1,
        2 * (1 + ROWS as usize),
    ) {
        Err(CutTestError::Lost(cut, loss)) => println!("found: {cut}: {loss}"),
        other => panic!("no loss was found: {other:?}"),
    }
}

#[test]
fn a_full_disk_is_a_typed_error_and_passes() {
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let disk = LoggedDisk::create(32 << 20).unwrap();
    let mounted = disk.mount().unwrap();
    let store = Store::open(&config(mounted.path(), None)).unwrap().store;
    let large = |db: &Connection| common::add(db, &"y".repeat(200_000));
    store.write(large).wait().unwrap();
    let filler = mounted.path().join("filler");
    let filled = io::copy(&mut io::repeat(1), &mut fs::File::create(&filler).unwrap());
    assert_eq!(filled.unwrap_err().kind(), io::ErrorKind::StorageFull);

    let mut acknowledged = 1;
    let error = loop {
        // What the log already occupies may still take a few.
        match store.write(large).wait() {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000);
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert_eq!(
        common::rows(&store),
        acknowledged,
        "reading works on a full disk"
    );
    fs::remove_file(filler).unwrap();
    store.write(large).wait().unwrap();
    assert_eq!(common::rows(&store), acknowledged + 1);
    store.close().wait().unwrap();
    let store = Store::open(&config(mounted.path(), None)).unwrap().store;
    assert_eq!(common::rows(&store), acknowledged + 1);
}
