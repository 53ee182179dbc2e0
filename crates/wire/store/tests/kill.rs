//! `kill -9` at every fault point: what was acknowledged is there, a schema is old or new, and the only
//! copy of a damaged database is never lost.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::fingerprint;
use muster_fault::{Action, Trial, matrix, test_program};
use muster_store::FAULT_POINTS;
use muster_store::rusqlite::Connection;
use tempfile::TempDir;

/// What a run of the writer said before it ended.
#[derive(Debug, Default)]
struct Said {
    opened: Option<String>,
    rows: BTreeSet<i64>,
    closed: bool,
}

struct Scene {
    folder: TempDir,
    acknowledged: BTreeSet<i64>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            acknowledged: BTreeSet::new(),
        }
    }

    fn db(&self) -> PathBuf {
        self.folder.path().join("rows.db")
    }

    /// Runs the writer to its end, or to its death if the trial kills it.
    fn run(&mut self, version: u32, rows: u32, trial: Option<(&Trial, u64)>) -> Said {
        let mut command = Command::new(test_program("store_writer"));
        command
            .arg(self.db())
            .args([version.to_string(), rows.to_string()]);
        command.env_remove("MUSTER_FAULT").stderr(Stdio::inherit());
        if let Some((trial, nth)) = trial {
            trial.arm_at(&mut command, nth, Action::Kill);
        }
        let output = command.output().expect("the writer starts");
        let mut said = Said::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.split_once(' ') {
                Some(("opened", how)) => said.opened = Some(how.to_owned()),
                Some(("row", number)) => {
                    said.rows.insert(number.parse().expect("a row's number"));
                }
                _ => said.closed = line == "closed",
            }
        }
        match trial {
            Some((trial, _)) if trial.reached() && !said.closed => {
                trial.assert_killed(output.status);
            }
            _ => assert!(
                output.status.success() && said.closed,
                "{:?}: {said:?}",
                output.status
            ),
        }
        self.acknowledged.extend(&said.rows);
        said
    }

    /// The rows that a plain SQLite finds, without changing anything that is tested.
    fn rows(&self) -> BTreeSet<i64> {
        let db = Connection::open(self.db()).expect("the database");
        let mut statement = db.prepare("SELECT number FROM rows").expect("the table");
        let rows = statement.query_map([], |row| row.get(0)).expect("the rows");
        rows.map(|row| row.expect("a row")).collect()
    }

    fn assert_nothing_acknowledged_is_lost(&self) {
        let rows = self.rows();
        let lost: Vec<_> = self.acknowledged.difference(&rows).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
}

fn new_database(trial: &Trial, nth: u64) {
    let mut scene = Scene::new();
    scene.run(1, 60, Some((trial, nth)));
    let again = scene.run(1, 4, None);
    if !scene.acknowledged.is_subset(&again.rows) {
        assert_eq!(again.opened.as_deref(), Some("existing"));
    }
    scene.assert_nothing_acknowledged_is_lost();
    let names = fs::read_dir(scene.folder.path())
        .expect("the folder")
        .count();
    assert_eq!(names, 2, "the database and its lock, no leftovers");
}

fn migration(trial: &Trial) {
    let mut scene = Scene::new();
    scene.run(1, 8, None);
    scene.run(2, 4, Some((trial, 1)));
    {
        let db = Connection::open(scene.db()).expect("the database");
        let one = |sql: &str| {
            db.query_row(sql, [], |row| row.get::<_, i64>(0))
                .expect(sql)
        };
        let column = one("SELECT count(*) FROM pragma_table_info('rows') WHERE name = 'size'");
        let recorded = one("SELECT count(*) FROM muster_migrations WHERE number = 2");
        let version = one("SELECT user_version FROM pragma_user_version");
        assert_eq!(column, recorded, "the schema is the old one or the new one");
        assert_eq!(version, 1 + recorded);
    }
    let again = scene.run(2, 4, None);
    assert_eq!(again.opened.as_deref(), Some("existing"));
    scene.assert_nothing_acknowledged_is_lost();
    let db = Connection::open(scene.db()).expect("the database");
    let unsized_rows = "SELECT count(*) FROM rows WHERE number <= 8 AND size IS NULL";
    let unsized_rows: i64 = db
        .query_row(unsized_rows, [], |row| row.get(0))
        .expect("rows");
    assert_eq!(unsized_rows, 0);
}

/// Where the files with these fingerprints are now, by name.
fn find(folder: &Path, wanted: (usize, u64)) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.filter(|path| fingerprint(path) == Some(wanted));
    found
        .map(|path| {
            path.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

fn damage(trial: &Trial) {
    let mut scene = Scene::new();
    scene.run(1, 2, None);
    scene.acknowledged.clear();
    let folder = scene.folder.path().to_owned();
    fs::write(scene.db(), "no longer a database").expect("damage");
    let log = folder.join("rows.db-wal");
    fs::write(&log, "no longer a log").expect("damage");
    let (main, log) = (
        fingerprint(&scene.db()).expect("main"),
        fingerprint(&log).expect("log"),
    );

    let killed = scene.run(1, 4, Some((trial, 1)));
    let (kept_main, kept_log) = (find(&folder, main), find(&folder, log));
    assert_eq!(
        (kept_main.len(), kept_log.len()),
        (1, 1),
        "one copy of each, somewhere"
    );

    let again = scene.run(1, 4, None);
    let told = killed.opened.as_deref() == Some("set-aside");
    let tells = again.opened.as_deref() == Some("set-aside");
    // The last moment at which the process knows and has not said so is after the note is gone.
    let unsaid = killed.opened.is_none();
    assert!(
        told || tells || unsaid && again.opened.as_deref() == Some("existing"),
        "{again:?}"
    );
    assert_ne!(
        again.opened.as_deref(),
        Some("created"),
        "never a silent start from nothing"
    );
    let (kept_main, kept_log) = (find(&folder, main), find(&folder, log));
    assert_eq!(kept_main.len(), 1);
    assert!(
        kept_main[0].starts_with("rows.db.damaged-"),
        "{kept_main:?}"
    );
    assert_eq!(
        kept_log,
        [format!("{}-wal", kept_main[0])],
        "the log is beside its database"
    );
    scene.assert_nothing_acknowledged_is_lost();
}

#[test]
fn nothing_acknowledged_is_lost_at_any_point() {
    matrix(FAULT_POINTS, |trial| {
        new_database(trial, 1);
        migration(trial);
        damage(trial);
    });
}

/// The points of a commit, at later commits, where jobs share transactions.
#[test]
fn nothing_acknowledged_is_lost_at_later_commits() {
    for name in ["store.job-done", "store.committed", "store.acknowledged"] {
        let point = FAULT_POINTS
            .iter()
            .find(|point| point.name() == name)
            .expect("the point");
        for nth in [2, 3, 5, 9, 14] {
            new_database(&Trial::new(*point), nth);
        }
    }
}
