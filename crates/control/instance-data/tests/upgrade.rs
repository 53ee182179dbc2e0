//! Databases of earlier versions.

use std::path::Path;

use muster_instance_data::SCHEMA;
use muster_store::testing::check_upgrades;

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let sql = "INSERT INTO instance_data_state VALUES ('web/main/0', x'01');
                INSERT INTO instance_data_followed VALUES ('web/main/0', 'web', 'main', 0, 0, 0, 64)";
            db.execute_batch(sql)
        },
        |db, version| {
            let sql = "SELECT path FROM instance_data_state WHERE checksum = x'01'";
            let found: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(found, "web/main/0", "version {version}");
            let sql = "SELECT count(*) FROM instance_data_followed WHERE state_limit = 64";
            let followed: i64 = db.query_row(sql, [], |row| row.get(0)).expect("a count");
            assert_eq!(followed, i64::from(version >= 2), "version {version}");
        },
    );
}
