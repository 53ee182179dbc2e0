use std::path::PathBuf;

use muster_api::domain::{AosCode, AosError};
use muster_store::testing::check_upgrades;
use proptest::prelude::*;

use super::*;
use crate::document::{ImageEntry, InstancesEntry, ItemEntry};
use crate::machine::{Assigned, Fetch, ItemRecord, State, UpdateStep};
use crate::seams::{Assignment, NodeShare};

fn database() -> Connection {
    let db = Connection::open_in_memory().expect("a database");
    for migration in SCHEMA.migrations() {
        if let Step::Sql(sql) = migration.step {
            db.execute_batch(sql).expect("tables");
        }
    }
    db
}

fn changes(saved: &Saved) -> Vec<Change> {
    let versions = saved.versions.values().cloned().map(Change::Version);
    let state = saved.state.iter().cloned().map(Change::State);
    let assigned = saved.assigned.iter().cloned().map(Change::Assigned);
    versions.chain(state).chain(assigned).collect()
}

/// Through the tables and back.
pub(crate) fn written_and_read(saved: &Saved) -> Saved {
    let db = database();
    apply(&db, &changes(saved)).expect("it is written");
    decode(rows(&db).expect("rows")).expect("it is read")
}

/// Something of everything.
fn sample() -> Saved {
    let mut document = Document::default();
    document.items.push(ItemEntry {
        id: "web".into(),
        version: "2".into(),
        image: ImageEntry {
            layout: Some("/srv/web.tar".into()),
            ..ImageEntry::default()
        },
        ..ItemEntry::default()
    });
    document.instances.push(InstancesEntry {
        item: "web".into(),
        count: 3,
        ..InstancesEntry::default()
    });
    let desired = document.check().expect("a document");
    let mut fallback = desired.items()["web"].clone();
    fallback.version = "1".into();
    let id = UpdateId(7);
    let why = AosError::new(AosCode::Timeout, "no answer");
    let ident = muster_api::domain::InstanceIdent {
        item_id: "web".parse().expect("an item"),
        subject_id: "local".parse().expect("a subject"),
        instance: 2,
        item_type: muster_api::domain::ItemType::Service,
        preinstalled: false,
    };
    let place = muster_balance::Place {
        node: "n1".parse().expect("a node"),
        runtime: "r1".parse().expect("a runtime"),
    };
    let version = Version {
        id,
        applied: time(1_700_000_000_123),
        origin: Origin::Cloud,
        name: "cloud".into(),
        desired: Arc::new(desired),
        places: [(ident.clone(), place)].into(),
    };
    let record = ItemRecord {
        fetch: Fetch::Failed(why.clone()),
        fallback: Some(fallback),
    };
    let state = State {
        update: id,
        step: UpdateStep::Activating,
        done: false,
        items: [("web".parse().expect("an item"), record)].into(),
        configuration: Some(why.clone()),
        placement: None,
    };
    let share = NodeShare {
        networks: vec![muster_api::servicemanager::v5::UpdateNetworkParameters {
            network_id: "net".into(),
            ..Default::default()
        }],
        instances: Vec::new(),
    };
    let assignment = Assignment {
        nodes: [("n1".parse().expect("a node"), share)].into(),
        unplaced: [(ident, why)].into(),
    };
    Saved {
        versions: [(id, Arc::new(version))].into(),
        state: Some(state),
        assigned: Some(Arc::new(Assigned { by: id, assignment })),
    }
}

#[test]
fn every_version_of_the_tables_becomes_this_one() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let fill = |db: &Connection| apply(db, &changes(&sample()));
    check_upgrades(&SCHEMA, &folder, fill, |db, _| {
        let found = decode(rows(db).expect("rows")).expect("records");
        assert_eq!(found, sample());
    });
}

#[test]
fn records_that_make_no_sense_are_named() {
    for (sql, message) in [
        (
            "UPDATE desired_state SET record = x'ff' WHERE name = 'state'",
            "the record of the newest update cannot be decoded",
        ),
        (
            "UPDATE desired_state SET record = x'' WHERE name = 'state'",
            "the record of the newest update holds an unknown step",
        ),
        (
            "UPDATE desired_state SET record = x'1202' WHERE name = 'assigned'",
            "the record of the assignment cannot be decoded",
        ),
        (
            "UPDATE desired_versions SET document = '{'",
            "the document of update 7 cannot be read",
        ),
        (
            "UPDATE desired_versions SET document = '{\"instances\":[{\"item\":\"x\"}]}'",
            "the document of update 7 is not valid",
        ),
        (
            "UPDATE desired_versions SET origin = 'x'",
            "the record of update 7 holds an unknown origin",
        ),
    ] {
        let db = database();
        apply(&db, &changes(&sample())).expect("it is written");
        db.execute_batch(sql).expect("damage");
        let error = decode(rows(&db).expect("rows")).expect_err(sql);
        assert_eq!(error.to_string(), message, "{sql}");
    }
}

proptest! {
    #[test]
    fn no_record_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode_state(&bytes);
        let _ = decode_assigned(&bytes);
        let _ = decode_places(&bytes);
    }
}
