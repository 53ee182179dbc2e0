//! What is written is read back, also by later versions, and what cannot be read harms nobody else.

use muster_api::domain::{AosCode, AosError};
use muster_store::testing::check_upgrades;
use muster_store::{OnDamage, StoreConfig};

use super::*;
use crate::decide::tests::info;

/// An instance of which everything is known that can be.
fn full_row() -> Row {
    let target = |version| {
        let variable = EnvVar::new("LEVEL".parse().unwrap(), "debug".into());
        Arc::new(Target {
            info: info(1, version),
            env_override: vec![variable.unwrap()],
        })
    };
    let fault = |text| AosError::new(AosCode::Failed, text);
    Row {
        goal: Some(Arc::new(info(1, 4))),
        good: Some(target(1)),
        rejected: Some(Rejected {
            target: target(2),
            fault: fault("it is not healthy"),
        }),
        running: Some((target(3), RunId(6))),
        known: Known {
            ends: 5,
            offline_ttl: Some(Duration::from_secs(300)),
            policy: Some(RunPolicy {
                restart_interval: Duration::from_millis(1500),
                start_burst: 7,
                start_interval: Duration::from_secs(40),
            }),
        },
        setback: Setback {
            crashes: Crashes {
                ends: 2,
                given_up: 3,
            },
            given_up: Some((Duration::from_millis(40_500), fault("its program ended"))),
        },
    }
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let instance = info(1, 1).instance;
            let record = encode_row(&instance, &full_row());
            db.execute(
                "INSERT INTO launcher_instances VALUES (?1, ?2)",
                (key(&instance), record),
            )?;
            set(db, NEXT_RUN, &7u64.to_le_bytes()).map(drop)
        },
        |db, version| {
            let instance = info(1, 1).instance;
            let sql = "SELECT record FROM launcher_instances WHERE ident = ?1";
            let record: rusqlite::Result<Vec<u8>> =
                db.query_row(sql, [key(&instance)], |row| row.get(0));
            let row = read_row("the row", &record.expect("the row"));
            // As the program of that version wrote it.
            let row = row.unwrap_or_else(|error| panic!("version {version}: {error:?}"));
            assert_eq!(row, (instance, full_row()), "version {version}");
            let sql = "SELECT value FROM launcher_settings WHERE name = 'next-run'";
            let run: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).expect("the number");
            assert_eq!(number(&run), 7, "version {version}");
        },
    );
}

fn put(number: u64, row: Row) -> Change {
    Change::Put(info(number, 1).instance, Box::new(row))
}

fn open(folder: &std::path::Path) -> Store {
    let config = StoreConfig::new(folder.join("sm.db"), "test", OnDamage::Refuse);
    Store::open(&config.schema(&SCHEMA))
        .expect("it opens")
        .store
}

#[tokio::test]
async fn how_an_instance_failed_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let why = AosError::new(AosCode::Failed, "its program ended");
    let row = Row {
        goal: Some(Arc::new(info(1, 1))),
        known: Known {
            ends: 5,
            offline_ttl: Some(Duration::from_secs(300)),
            policy: Some(RunPolicy {
                restart_interval: Duration::from_millis(1500),
                start_burst: 7,
                start_interval: Duration::from_secs(40),
            }),
        },
        setback: Setback {
            crashes: Crashes {
                ends: 2,
                given_up: 3,
            },
            given_up: Some((Duration::from_millis(40_500), why)),
        },
        ..Row::default()
    };
    let changes = vec![put(1, row.clone()), Change::KnowsCloud];
    save(&store, changes).await.expect("it is written");
    let saved = load(&store).await.expect("it is read");
    assert_eq!(saved.rows, [(info(1, 1).instance, row)]);
    assert!(saved.knows_cloud);
}

#[tokio::test]
async fn a_record_that_makes_no_sense_is_forgotten_and_keeps_nobody_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let row = Row {
        goal: Some(Arc::new(info(2, 1))),
        ..Row::default()
    };
    let changes = vec![
        put(1, Row::default()),
        put(2, row.clone()),
        put(3, row.clone()),
    ];
    save(&store, changes).await.expect("it is written");
    let (first, third) = (key(&info(1, 1).instance), key(&info(3, 1).instance));
    let damage = store.write(move |db| {
        // One is no record at all, the other is one that says nothing.
        let sql = "UPDATE launcher_instances SET record = ?1 WHERE ident = ?2";
        db.execute(sql, (b"\xff\xff".as_slice(), first))?;
        db.execute(sql, (b"".as_slice(), third))?;
        db.execute(
            "INSERT INTO launcher_settings VALUES ('overrides', x'ff')",
            [],
        )
    });
    damage.await.expect("it is written");
    let saved = load(&store).await.expect("it is read");
    assert_eq!(saved.rows, [(info(2, 1).instance, row)]);
    assert!(saved.overrides.is_empty());
    let left = store.read(|db| {
        let sql = "SELECT count(*) FROM launcher_instances";
        db.query_row(sql, [], |row| row.get::<_, u32>(0))
    });
    assert_eq!(
        left.await.expect("a number"),
        1,
        "and it is not there any more"
    );
}
