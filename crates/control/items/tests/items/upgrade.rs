//! Databases of earlier versions.

use std::path::Path;

use muster_items::SCHEMA;
use muster_store::testing::check_upgrades;

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let sql = "INSERT INTO items_known VALUES ('{}', 'sha256:00')";
            db.execute(sql, []).map(drop)
        },
        |db, version| {
            let sql = "SELECT digest FROM items_known WHERE item = '{}'";
            let found: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(found, "sha256:00", "version {version}");
        },
    );
}
