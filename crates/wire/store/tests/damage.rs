//! Damaged databases: found, kept whole under another name, reported; or refused and left alone.

mod common;

use std::fs;
use std::path::Path;

use common::{NOTES_V1, Place, add, fingerprint, flip, rows};
use muster_store::rusqlite::Connection;
use muster_store::{Damage, OnDamage, OpenStoreError, Outcome, Store, StoreConfig, StoreError};
use proptest::prelude::*;

/// A closed database with enough rows for several pages.
fn filled() -> Place {
    let place = Place::new();
    let store = place.open().store;
    let fill = |db: &Connection| {
        for number in 0..400 {
            add(db, &format!("note {number} {}", "x".repeat(200)))?;
        }
        Ok(())
    };
    store.write(fill).wait().expect("rows");
    store.close().wait().expect("a clean close");
    place
}

/// Opens under both policies: first it is refused and nothing changes, then it is set aside whole.
fn expect_set_aside(place: &Place) -> Damage {
    let parts = ["", "-wal", "-shm"];
    let read = |stem: &Path| {
        parts.map(|part| {
            let mut path = stem.as_os_str().to_owned();
            path.push(part);
            fingerprint(Path::new(&path))
        })
    };
    let before = read(&place.db());
    let refused = Store::open(&place.config(OnDamage::Refuse)).expect_err("a damaged database");
    let OpenStoreError::Damaged { source: damage, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(read(&place.db()), before, "refusing changes nothing");
    assert!(place.names().iter().all(|name| !name.contains("damaged")));

    let opened = Store::open(&place.config(OnDamage::StartEmpty)).expect("an empty database");
    let Outcome::SetAside { paths, reason } = opened.outcome else {
        panic!("{:?}", opened.outcome)
    };
    assert_eq!(reason, damage);
    let stem = paths[0]
        .to_str()
        .expect("UTF-8")
        .trim_end_matches("-wal")
        .to_owned();
    assert_eq!(
        read(Path::new(&stem)),
        before,
        "all parts are kept as they were"
    );
    assert_eq!(paths.len(), before.iter().flatten().count());
    assert_eq!(rows(&opened.store), 0);
    opened
        .store
        .write(|db| add(db, "a new start"))
        .wait()
        .expect("the new database works");
    opened.store.close().wait().expect("a clean close");
    assert_eq!(
        rows(&place.open().store),
        1,
        "the new database is an ordinary one"
    );
    damage
}

#[test]
fn an_empty_file_is_damage() {
    let place = filled();
    fs::write(place.db(), "").unwrap();
    assert_eq!(expect_set_aside(&place), Damage::Empty);
}

#[test]
fn an_empty_file_does_not_cost_the_log_beside_it() {
    let place = Place::new();
    place.crash_with_rows(3);
    fs::write(place.db(), "").unwrap();
    assert_eq!(expect_set_aside(&place), Damage::Empty);
}

#[test]
fn a_log_without_its_database_is_damage() {
    let place = Place::new();
    place.crash_with_rows(3);
    fs::remove_file(place.db()).unwrap();
    assert_eq!(expect_set_aside(&place), Damage::LogWithoutDatabase);
}

#[test]
fn something_else_is_damage() {
    let place = filled();
    fs::write(place.db(), "#!/bin/sh\n".repeat(1000)).unwrap();
    assert_eq!(expect_set_aside(&place), Damage::NotADatabase);
    let place = filled();
    fs::write(place.db(), "short").unwrap();
    assert_eq!(expect_set_aside(&place), Damage::NotADatabase);
}

#[test]
fn a_truncated_file_is_damage() {
    let place = filled();
    let bytes = fs::read(place.db()).unwrap();
    fs::write(place.db(), &bytes[..bytes.len() - 4096]).unwrap();
    let expected = u64::try_from(bytes.len()).unwrap();
    assert_eq!(
        expect_set_aside(&place),
        Damage::Truncated {
            expected,
            found: expected - 4096
        }
    );
}

#[test]
fn a_damaged_page_is_damage() {
    let place = filled();
    flip(&place.db(), 5 * 4096);
    let damage = expect_set_aside(&place);
    assert!(
        matches!(damage, Damage::Check { .. } | Damage::Refused { .. }),
        "{damage:?}"
    );
}

#[test]
fn damage_inside_the_log_is_not_taken_for_its_end() {
    let place = Place::new();
    place.crash_with_rows(6);
    flip(&place.log(), 32 + 24 + 4096 + 100);
    assert_eq!(expect_set_aside(&place), Damage::Log { frame: Some(1) });
}

#[test]
fn a_torn_end_of_the_log_costs_only_what_was_never_acknowledged() {
    let place = Place::new();
    place.crash_with_rows(6);
    let log = fs::read(place.log()).unwrap();
    fs::write(place.log(), &log[..log.len() - 1000]).unwrap();
    let opened = Store::open(&place.config(OnDamage::Refuse)).unwrap();
    assert_eq!(rows(&opened.store), 5);
}

#[test]
fn a_lost_record_of_migrations_is_damage() {
    let place = filled();
    let db = Connection::open(place.db()).unwrap();
    db.execute_batch("DELETE FROM muster_migrations").unwrap();
    drop(db);
    assert_eq!(expect_set_aside(&place), Damage::Records);
}

#[test]
fn every_copy_is_kept_and_counted() {
    let place = filled();
    for expected in 1..=3 {
        fs::write(place.db(), format!("broken {expected}")).unwrap();
        let opened = Store::open(&place.config(OnDamage::StartEmpty)).unwrap();
        let copies = opened.store.set_aside_copies().unwrap();
        assert_eq!(copies.len(), expected);
    }
}

#[test]
fn a_note_that_cannot_be_read_is_refused() {
    let place = filled();
    fs::write(
        place.folder.path().join("notes.db.set-aside"),
        "muster set-aside 1\n",
    )
    .unwrap();
    let error = Store::open(&place.config(OnDamage::StartEmpty)).unwrap_err();
    assert!(matches!(error, OpenStoreError::Note { .. }), "{error:?}");
}

/// An earlier run had begun to set the database aside when it was stopped.
#[test]
fn an_unfinished_set_aside_is_finished_only_if_the_policy_allows_it() {
    let place = filled();
    let note = place.folder.path().join("notes.db.set-aside");
    let target = "notes.db.damaged-20260101T000000Z-1";
    fs::write(
        &note,
        format!("muster set-aside 1\n{target}\nmain\nsome reason\n"),
    )
    .unwrap();
    let before = fingerprint(&place.db());
    let error = Store::open(&place.config(OnDamage::Refuse)).unwrap_err();
    let reason = Damage::Earlier {
        reason: "some reason".into(),
    };
    let OpenStoreError::Damaged { source, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(source, reason);
    assert_eq!(fingerprint(&place.db()), before);
    assert!(note.exists());

    let opened = Store::open(&place.config(OnDamage::StartEmpty)).unwrap();
    let target = fs::canonicalize(place.folder.path()).unwrap().join(target);
    assert_eq!(fingerprint(&target), before);
    assert_eq!(
        opened.outcome,
        Outcome::SetAside {
            paths: vec![target],
            reason
        }
    );
    assert!(!note.exists());
    assert_eq!(rows(&opened.store), 0);
}

/// Too large for a check at every start, closed cleanly, and then damaged by the medium.
#[test]
fn damage_found_in_use_is_typed_and_leads_to_a_full_check() {
    let place = Place::new();
    let store = place.open().store;
    let fill = |db: &Connection| {
        for _ in 0..5000 {
            db.execute(
                "INSERT INTO notes (body) VALUES (hex(randomblob(2000)))",
                [],
            )?;
        }
        Ok(())
    };
    store.write(fill).wait().unwrap();
    store.close().wait().unwrap();
    let length = usize::try_from(fs::metadata(place.db()).unwrap().len()).unwrap();
    assert!(length > 16 * 1024 * 1024, "{length}");
    let mut bytes = fs::read(place.db()).unwrap();
    for page in 1000..1100 {
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
    }
    fs::write(place.db(), bytes).unwrap();

    let opened = place.open();
    assert_eq!(
        opened.outcome,
        Outcome::Existing {
            migrated: Vec::new()
        }
    );
    let sum = |db: &Connection| {
        db.query_row("SELECT sum(length(body)) FROM notes", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    let error = opened.store.read(sum).wait().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    opened.store.close().wait().unwrap();
    let damage = expect_set_aside(&place);
    assert!(
        matches!(damage, Damage::Check { .. } | Damage::Refused { .. }),
        "{damage:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever bytes change: no panic, no silent start from nothing, nothing deleted.
    #[test]
    fn random_damage_is_never_silent(
        flips in prop::collection::vec((0.0..1.0_f64, 1..=255_u8), 1..20),
        in_log in any::<bool>(),
        cut in prop::option::of(0.0..1.0_f64),
    ) {
        let place = Place::new();
        place.crash_with_rows(4);
        let path = if in_log { place.log() } else {
            // Without the log, what the file itself says counts.
            drop(place.open());
            place.db()
        };
        let mut bytes = fs::read(&path).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                 clippy::cast_precision_loss, reason = "a position inside a small buffer")]
        let position = |part: f64, length: usize| (length as f64 * part) as usize;
        for (at, xor) in flips {
            let at = position(at, bytes.len());
            bytes[at] ^= xor;
        }
        if let Some(cut) = cut {
            let length = position(cut, bytes.len());
            bytes.truncate(length);
        }
        fs::write(&path, &bytes).unwrap();

        let config = StoreConfig::new(place.db(), "t", OnDamage::StartEmpty).schema(&NOTES_V1);
        match Store::open(&config) {
            Ok(opened) => match opened.outcome {
                Outcome::Created => prop_assert!(false, "a silent start from nothing"),
                Outcome::SetAside { paths, .. } => {
                    let kept = paths.iter().any(|kept| fs::read(kept).unwrap() == bytes);
                    prop_assert!(kept);
                }
                Outcome::Existing { .. } => {
                    // Payload has no checksums: it may read, or fail with a typed error.
                    let body = |db: &Connection| {
                        let mut statement = db.prepare("SELECT id, body FROM notes")?;
                        let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
                        Ok(rows.filter_map(Result::ok).count())
                    };
                    let _: Result<usize, StoreError> = opened.store.read(body).wait();
                }
            },
            // A changed record can look like an edit, another version or another program's file.
            Err(OpenStoreError::Future { .. } | OpenStoreError::Edited { .. }
                | OpenStoreError::Foreign { .. }) => {
                let untouched = fs::read(&path).unwrap() == bytes;
                prop_assert!(untouched);
            }
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
