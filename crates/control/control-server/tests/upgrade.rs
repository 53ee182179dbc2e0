//! Databases of earlier versions.

use std::path::Path;

use muster_control_server::SCHEMA;
use muster_store::testing::check_upgrades;

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            db.execute("INSERT INTO control_events VALUES (7, 1, 2, x'0a')", [])?;
            let sql = "INSERT INTO control_alerts VALUES (8, 3, 4, x'0b')";
            db.execute(sql, []).map(drop)
        },
        |db, version| {
            let sql = "SELECT number FROM control_events WHERE record = x'0a' UNION ALL
                       SELECT number FROM control_alerts WHERE record = x'0b'";
            let mut statement = db.prepare(sql).expect("the tables");
            let rows = statement.query_map([], |row| row.get(0)).expect("rows");
            let found: Vec<i64> = rows.map(|row| row.expect("a row")).collect();
            assert_eq!(found, [7, 8], "version {version}");
        },
    );
}
