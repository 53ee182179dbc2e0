use std::path::Path;

use muster_store::testing::check_upgrades;

use super::*;

fn digest(number: u8) -> Digest {
    Digest::from_sha256([number; 32])
}

fn inventory() -> Inventory {
    let layer = LayerRecord {
        diff_id: digest(9),
        bytes: 4096,
        seal: [3; 32],
    };
    let item = ItemRecord {
        manifest: digest(1),
        is_complete: true,
        removed_at: Some(7),
        blobs: BTreeSet::from([digest(1), digest(2)]),
        layers: BTreeSet::from([digest(3)]),
    };
    let begun = ItemRecord {
        is_complete: false,
        removed_at: None,
        ..item.clone()
    };
    Inventory {
        blobs: [
            (digest(1), 10),
            (Digest::from_sha512([2; 64]), u64::from(u32::MAX) + 1),
        ]
        .into(),
        layers: [(digest(3), layer)].into(),
        items: [(digest(1), item), (digest(4), begun)].into(),
        ..Inventory::default()
    }
}

fn sample(db: &Connection) -> rusqlite::Result<()> {
    let inventory = inventory();
    for (digest, bytes) in &inventory.blobs {
        put_blob(db, digest, *bytes)?;
    }
    for (digest, layer) in &inventory.layers {
        put_layer(db, digest, layer)?;
    }
    for (digest, item) in &inventory.items {
        put_item(db, digest, item)?;
    }
    Ok(())
}

#[test]
fn every_released_version_can_be_upgraded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(&SCHEMA, &folder, sample, |db, _| {
        assert_eq!(load(db).unwrap(), inventory());
    });
}

#[test]
fn what_goes_is_forgotten_with_all_that_hangs_on_it_and_nonsense_is_left_out() {
    let db = Connection::open_in_memory().unwrap();
    for migration in SCHEMA.migrations() {
        let Step::Sql(sql) = migration.step else {
            continue;
        };
        db.execute_batch(sql).unwrap();
    }
    sample(&db).unwrap();
    db.execute("INSERT INTO image_blobs VALUES ('../../etc/passwd', 1)", [])
        .unwrap();
    assert_eq!(load(&db).unwrap(), inventory());

    let plan = GcPlan {
        items: BTreeSet::from([digest(1)]),
        blobs: BTreeSet::from([digest(1)]),
        layers: BTreeSet::from([digest(3)]),
        ..GcPlan::default()
    };
    forget(&db, &plan).unwrap();
    set_removed(&db, &digest(4), Some(99)).unwrap();
    let left = load(&db).unwrap();
    assert_eq!(left.items.len(), 1);
    assert_eq!(left.items[&digest(4)].removed_at, Some(99));
    assert!(left.layers.is_empty() && left.blobs.len() == 1);
    let uses: i64 = db
        .query_row(
            "SELECT count(*) FROM image_uses WHERE item = ?1",
            [digest(1).to_string()],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(uses, 0);
}
