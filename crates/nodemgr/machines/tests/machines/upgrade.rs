//! Databases of earlier versions.

use std::path::Path;

use muster_machines::{MachineEvent, Pool, Record, SCHEMA};
use muster_store::rusqlite::Connection;
use muster_store::testing::check_upgrades;
use muster_store::{OnDamage, Store, StoreConfig};

const RECORD: &str = r#"{"id":"m-01","token":"t-01","order":{"provider":"sim","template":"small","spec":{"cpus":2}},"ordered":5,"phase":{"made":{"resource":"sim-1","at":6,"life":{"state":"hibernated","since":7,"task":{"verb":"resume","reason":"pool","since":8}}}}}"#;
/// One that was made to be a node, when a label was all that told.
const LABELLED: &str = r#"{"id":"m-02","token":"t-02","order":{"provider":"sim","template":"small","spec":{},"labels":{"unit":"/units/one/join.json"}},"ordered":5,"phase":{"made":{"resource":"sim-2","at":6,"life":{"state":"running","since":7}}}}"#;
const EVENT: &str =
    r#"{"number":1,"at":5,"machine":"m-01","what":{"moved":{"from":"running","to":"hibernated"}}}"#;
const POOL: &str =
    r#"{"size":{"minIdle":2,"max":4},"order":{"provider":"sim","template":"small","spec":{}}}"#;

fn get(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |row| row.get(0)).expect("the row")
}

#[test]
fn every_released_version_can_be_upgraded_and_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            db.execute("INSERT INTO machines_machine VALUES ('m-01', ?1)", [RECORD])?;
            db.execute("INSERT INTO machines_event VALUES (1, 'm-01', ?1)", [EVENT])?;
            db.execute("INSERT INTO machines_pool VALUES ('ci', ?1)", [POOL])
                .map(drop)
        },
        |db, version| {
            let text = get(db, "SELECT record FROM machines_machine WHERE id = 'm-01'");
            let record: Record = serde_json::from_str(&text).expect("a record");
            assert_eq!(record.state().as_str(), "hibernated", "version {version}");
            assert_eq!(record.order.spec.cpus.map(u32::from), Some(2));
            assert_eq!(record.unit, None);
            let text = get(db, "SELECT event FROM machines_event");
            let event: MachineEvent = serde_json::from_str(&text).expect("an event");
            assert_eq!(event.number, 1);
            let text = get(db, "SELECT pool FROM machines_pool");
            let pool: Pool = serde_json::from_str(&text).expect("a pool");
            assert_eq!(pool.size.min_idle, 2);
        },
    );
}

#[test]
fn a_machine_that_was_labelled_as_a_node_is_one_after_the_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machines.db");
    let fixture = include_str!("../fixtures/v1.sql");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(fixture).unwrap();
    db.execute(
        "INSERT INTO machines_machine VALUES ('m-02', ?1)",
        [LABELLED],
    )
    .unwrap();
    drop(db);
    let config = StoreConfig::new(path.clone(), "test", OnDamage::Refuse).schema(&SCHEMA);
    drop(Store::open(&config).unwrap());
    let db = Connection::open(&path).unwrap();
    let text = get(&db, "SELECT record FROM machines_machine WHERE id = 'm-02'");
    let record: Record = serde_json::from_str(&text).unwrap();
    assert_eq!(record.unit.as_deref(), Some("/units/one/join.json"));
}
