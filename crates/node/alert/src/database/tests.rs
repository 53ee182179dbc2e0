use std::path::PathBuf;
use std::time::SystemTime;

use muster_api::domain::Timestamp;
use muster_store::testing::check_upgrades;

use super::*;

fn repeats() -> Repeats {
    Repeats {
        count: 7,
        last: Alert {
            timestamp: Timestamp::try_from(SystemTime::UNIX_EPOCH).expect("a time"),
            kind: AlertKind::System {
                message: "again".to_owned(),
            },
        },
    }
}

fn source() -> Id128 {
    Id128::from_bytes([7; 16])
}

/// Rows as this version writes them.
fn sample(db: &Connection) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO alert_floods (key, repeats, alert) VALUES ('a', 7, ?1)",
        [encode(&repeats().last)],
    )?;
    db.execute(
        "INSERT INTO alert_places (source, number, lasting) VALUES (?1, 42, 1)",
        [source().to_string()],
    )?;
    set(db, RECENT, &[1; 32])?;
    set(db, TOLD_LOST, &9_u64.to_le_bytes())
}

#[test]
fn every_version_of_the_tables_becomes_this_one() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(&SCHEMA, &folder, sample, |db, _| {
        let key = Key::from_text("a".to_owned());
        assert_eq!(floods(db).expect("floods"), [(key, repeats())].into());
        assert_eq!(told_lost(db).expect("a number"), 9);
        let place = journal(db).expect("a place").expect("begun");
        let expected = Place {
            number: 42,
            lasting: true,
        };
        assert_eq!(place.places, [(source(), expected)].into());
        assert_eq!(place.recent, [1; 32]);
    });
}

#[test]
fn rows_that_make_no_sense_are_left_out() {
    let db = Connection::open_in_memory().expect("a database");
    for migration in SCHEMA.migrations() {
        if let Step::Sql(sql) = migration.step {
            db.execute_batch(sql).expect("tables");
        }
    }
    assert_eq!(journal(&db).expect("none"), None);
    db.execute_batch(
        "INSERT INTO alert_floods VALUES ('a', 1, x'ff');
         INSERT INTO alert_places VALUES ('not an id', 1, 1);
         INSERT INTO alert_settings VALUES ('told-lost', x'01'), ('recent', x'0102');",
    )
    .expect("rows");
    assert!(floods(&db).expect("floods").is_empty());
    assert_eq!(told_lost(&db).expect("a number"), 0);
    assert!(
        journal(&db)
            .expect("a place")
            .expect("begun")
            .places
            .is_empty()
    );
}
