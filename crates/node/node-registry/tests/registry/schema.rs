//! Databases of earlier versions can be opened by this one.

use std::path::Path;

use muster_node_registry::SCHEMA;
use muster_store::testing::check_upgrades;

#[test]
fn databases_of_every_version_are_upgraded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &folder,
        |db| {
            db.execute(
                "INSERT INTO node_registry_nodes VALUES ('a', x'0A0161', 1, 1700000000)",
                [],
            )
            .map(drop)
        },
        |db, version| {
            let row = db.query_row(
                "SELECT id, info, connected, since FROM node_registry_nodes",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            );
            let expected: (String, Vec<u8>, i64, i64) =
                ("a".into(), vec![0x0A, 1, 0x61], 1, 1_700_000_000);
            assert_eq!(row, Ok(expected), "version {version}");
        },
    );
}
