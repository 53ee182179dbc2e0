//! Opening: what is made, what is refused, and that refusing touches nothing.

mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::{NOTES_V1, NOTES_V2, Place, add, fingerprint, rows};
use muster_store::rusqlite::Connection;
use muster_store::{
    Migrated, Migration, OnDamage, OpenStoreError, Outcome, Schema, Step, Store, StoreConfig,
    UnsafePath,
};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).expect("metadata").permissions().mode() & 0o777
}

fn content(place: &Place) -> BTreeMap<String, Option<(usize, u64)>> {
    let names = place
        .names()
        .into_iter()
        .filter(|name| !name.ends_with(".lock"));
    names
        .map(|name| (name.clone(), fingerprint(&place.folder.path().join(name))))
        .collect()
}

#[test]
fn a_new_database_is_private_and_complete() {
    let place = Place::new();
    let path = place.folder.path().join("state/deep/notes.db");
    let config = StoreConfig::new(&path, "t 1", OnDamage::Refuse).schema(&NOTES_V1);
    let opened = Store::open(&config).unwrap();
    assert_eq!(opened.outcome, Outcome::Created);
    opened.store.write(|db| add(db, "x")).wait().unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_file_name("notes.db-wal")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn closing_leaves_one_file_and_opening_finds_it() {
    let place = Place::new();
    let store = place.open().store;
    let again = store.clone();
    store.write(|db| add(db, "kept")).wait().unwrap();
    store.close().wait().unwrap();
    assert_eq!(place.names(), ["notes.db", "notes.db.lock"]);
    assert!(
        again
            .read(common::count)
            .wait()
            .unwrap_err()
            .to_string()
            .ends_with("is closed")
    );

    let opened = place.open();
    assert_eq!(
        opened.outcome,
        Outcome::Existing {
            migrated: Vec::new()
        }
    );
    assert_eq!(rows(&opened.store), 1);
    drop(opened);
    assert_eq!(
        place.names(),
        ["notes.db", "notes.db.lock"],
        "dropping closes as well"
    );
}

#[test]
fn rows_in_the_log_of_a_dead_process_are_found() {
    let place = Place::new();
    place.crash_with_rows(3);
    assert_eq!(rows(&place.open().store), 3);
}

#[test]
fn a_second_owner_is_refused_and_told_who_the_first_is() {
    let place = Place::new();
    let first = place.open();
    let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
    let OpenStoreError::InUse { path, owner } = &error else {
        panic!("{error:?}")
    };
    assert!(path.ends_with("notes.db"));
    assert_eq!(*owner, Some(std::process::id()));
    drop(first);
    place.open();
}

#[test]
fn a_database_is_migrated_and_keeps_its_rows() {
    let place = Place::new();
    place
        .open()
        .store
        .write(|db| add(db, "four"))
        .wait()
        .unwrap();
    let config = StoreConfig::new(place.db(), "t 2", OnDamage::Refuse).schema(&NOTES_V2);
    let opened = Store::open(&config).unwrap();
    let migrated = vec![Migrated {
        schema: "notes",
        from: 1,
        to: 2,
    }];
    assert_eq!(opened.outcome, Outcome::Existing { migrated });
    let length = |db: &Connection| db.query_row("SELECT length FROM notes", [], |row| row.get(0));
    assert_eq!(opened.store.read::<i64, _>(length).wait().unwrap(), 4);
}

#[test]
fn a_database_from_the_future_is_refused_and_untouched() {
    let place = Place::new();
    let newer = StoreConfig::new(place.db(), "notes 2.0", OnDamage::Refuse).schema(&NOTES_V2);
    Store::open(&newer)
        .unwrap()
        .store
        .write(|db| add(db, "new"))
        .wait()
        .unwrap();
    // Also with a log, as a killed newer program leaves it.
    let store = Store::open(&newer).unwrap().store;
    store.write(|db| add(db, "newer")).wait().unwrap();
    let log = fs::read(place.log()).unwrap();
    let main = fs::read(place.db()).unwrap();
    drop(store);
    fs::write(place.db(), main).unwrap();
    fs::write(place.log(), log).unwrap();

    let before = content(&place);
    let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
    let OpenStoreError::Future {
        schema,
        found: 2,
        known: 1,
        writer,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((schema.as_str(), writer.as_str()), ("notes", "notes 2.0"));
    assert!(error.to_string().contains("written by notes 2.0"));
    assert!(before.contains_key("notes.db-wal"));
    assert_eq!(content(&place), before);
    assert_eq!(rows(&Store::open(&newer).unwrap().store), 2);
}

#[test]
fn an_edited_migration_is_refused_by_name() {
    static EDITED: Schema = Schema::new(
        "notes",
        &[Migration {
            number: 1,
            name: "notes",
            step: Step::Sql("CREATE TABLE notes (id INTEGER PRIMARY KEY, body BLOB) STRICT"),
        }],
    );
    let place = Place::new();
    drop(place.open());
    let before = content(&place);
    let config = StoreConfig::new(place.db(), "t 2", OnDamage::StartEmpty).schema(&EDITED);
    let error = Store::open(&config).unwrap_err();
    assert!(
        matches!(&error, OpenStoreError::Edited { number: 1, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains("migration 1 (notes) of schema \"notes\"")
    );
    assert_eq!(content(&place), before);
}

#[test]
fn a_failing_migration_leaves_the_version_before_it() {
    static FAILING: Schema = Schema::new(
        "notes",
        &[
            Migration {
                number: 1,
                name: "notes",
                step: Step::Sql(
                    "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT",
                ),
            },
            Migration {
                number: 2,
                name: "half",
                step: Step::Sql("CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)"),
            },
        ],
    );
    let place = Place::new();
    place
        .open()
        .store
        .write(|db| add(db, "kept"))
        .wait()
        .unwrap();
    let config = StoreConfig::new(place.db(), "t 2", OnDamage::StartEmpty).schema(&FAILING);
    let error = Store::open(&config).unwrap_err();
    let OpenStoreError::Migration {
        number: 2,
        name: "half",
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert!(error.source().unwrap().to_string().contains("nowhere"));
    let store = place.open().store;
    assert_eq!(rows(&store), 1);
    let half = "SELECT count(*) FROM sqlite_schema WHERE name = 'half'";
    let half = store.read(move |db| db.query_row(half, [], |row| row.get::<_, i64>(0)));
    assert_eq!(half.wait().unwrap(), 0);
}

#[test]
fn a_migration_by_code_may_rebuild_tables_but_not_leave_dangling_rows() {
    const TABLES: Migration = Migration {
        number: 1,
        name: "tables",
        step: Step::Sql(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent INTEGER NOT NULL REFERENCES parent (id));
             INSERT INTO parent VALUES (1), (2);
             INSERT INTO child VALUES (1);",
        ),
    };
    fn rebuild(db: &Connection) -> muster_store::rusqlite::Result<()> {
        db.execute_batch(
            "CREATE TABLE parent_new (id INTEGER PRIMARY KEY, name TEXT);
             INSERT INTO parent_new (id) SELECT id FROM parent;
             DROP TABLE parent;
             ALTER TABLE parent_new RENAME TO parent;",
        )
    }
    fn orphan(db: &Connection) -> muster_store::rusqlite::Result<()> {
        db.execute_batch("DELETE FROM parent WHERE id = 1")
    }
    const REBUILD: Migration = Migration {
        number: 2,
        name: "rebuild",
        step: Step::Code {
            id: "rebuild 1",
            run: rebuild,
        },
    };
    const ORPHAN: Migration = Migration {
        number: 3,
        name: "orphan",
        step: Step::Code {
            id: "orphan 1",
            run: orphan,
        },
    };
    static GOOD: Schema = Schema::new("family", &[TABLES, REBUILD]);
    static BAD: Schema = Schema::new("family", &[TABLES, REBUILD, ORPHAN]);

    let place = Place::new();
    let config = |schema| StoreConfig::new(place.db(), "t", OnDamage::Refuse).schema(schema);
    drop(Store::open(&config(&GOOD)).unwrap());
    let error = Store::open(&config(&BAD)).unwrap_err();
    let OpenStoreError::DanglingRows {
        number: 3, table, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(table, "child");
    let store = Store::open(&config(&GOOD)).unwrap().store;
    let orphan = store.write(|db| db.execute("DELETE FROM parent WHERE id = 1", []));
    assert!(orphan.wait().is_err(), "foreign keys are on in normal work");
}

#[test]
fn the_database_of_another_program_is_refused_and_untouched() {
    let place = Place::new();
    let foreign = Connection::open(place.db()).unwrap();
    foreign
        .execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)")
        .unwrap();
    drop(foreign);
    fs::set_permissions(place.db(), fs::Permissions::from_mode(0o600)).unwrap();
    let before = content(&place);
    let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
    assert!(
        matches!(
            error,
            OpenStoreError::Foreign {
                application_id: 0,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(content(&place), before);
}

#[test]
fn wide_permissions_are_taken_away() {
    let place = Place::new();
    drop(place.open());
    fs::set_permissions(place.db(), fs::Permissions::from_mode(0o644)).unwrap();
    drop(place.open());
    assert_eq!(mode(&place.db()), 0o600);
}

#[test]
fn links_and_folders_in_place_of_files_are_refused() {
    let elsewhere = Place::new();
    drop(elsewhere.open());
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let place = Place::new();
        let path = place.folder.path().join(format!("notes.db{suffix}"));
        symlink(elsewhere.db(), &path).unwrap();
        let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
        let OpenStoreError::Unsafe {
            source: UnsafePath::SymbolicLink,
            ..
        } = error
        else {
            panic!("{suffix}: {error:?}")
        };
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
        let OpenStoreError::Unsafe {
            source: UnsafePath::NotAFile,
            ..
        } = error
        else {
            panic!("{suffix}: {error:?}")
        };
    }
}

#[test]
fn a_linked_lock_is_refused() {
    let place = Place::new();
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, place.folder.path().join("notes.db.lock")).unwrap();
    assert!(Store::open(&place.config(OnDamage::StartEmpty)).is_err());
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let place = Place::new();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let error = Store::open(&place.config(OnDamage::Refuse)).unwrap_err();
    let OpenStoreError::Unsafe {
        source: UnsafePath::WritableByOthers,
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_linked_folder_is_followed() {
    let place = Place::new();
    let link = place.folder.path().join("link");
    let real = place.folder.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&real, &link).unwrap();
    let config = StoreConfig::new(link.join("notes.db"), "t", OnDamage::Refuse).schema(&NOTES_V1);
    let store = Store::open(&config).unwrap().store;
    assert_eq!(
        store.path(),
        fs::canonicalize(&real).unwrap().join("notes.db")
    );
}
