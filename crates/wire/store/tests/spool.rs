//! The spool against a model, over restarts, and its fixtures.

use std::collections::BTreeMap;
use std::path::Path;

use muster_store::rusqlite::{self, Connection};
use muster_store::spool::{
    Amount, Appended, ENTRY_COST, Entry, EntryId, Kind, Limits, SCHEMA, Spool,
};
use muster_store::testing::check_upgrades;
use muster_store::{Abort, AttemptError, OnDamage, Store, StoreConfig};
use proptest::prelude::*;
use tempfile::TempDir;

const KINDS: [Kind; 3] = [
    Kind {
        name: "log",
        priority: 1,
    },
    Kind {
        name: "status",
        priority: 1,
    },
    Kind {
        name: "alert",
        priority: 5,
    },
];

fn open(folder: &TempDir) -> Store {
    let path = folder.path().join("spool.db");
    let config = StoreConfig::new(path, "spool-test 1", OnDamage::Refuse).schema(&SCHEMA);
    Store::open(&config).expect("the store opens").store
}

fn spool(store: &Store, entries: u64, bytes: u64) -> Spool {
    Spool::new(store.clone(), "test", Limits { entries, bytes })
}

#[test]
fn entries_come_back_in_order_until_they_are_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let spool = spool(&store, 100, 100_000);
    let mut ids = Vec::new();
    for number in 0..5_u8 {
        let Appended::Stored { id, dropped: 0 } =
            spool.append(KINDS[0], vec![number]).wait().unwrap()
        else {
            panic!("no room")
        };
        ids.push(id);
    }
    let bodies = |entries: Vec<Entry>| entries.into_iter().map(|e| e.body[0]).collect::<Vec<_>>();
    assert_eq!(
        bodies(spool.after(EntryId::START, 3).wait().unwrap()),
        [0, 1, 2]
    );
    assert_eq!(bodies(spool.after(ids[2], 10).wait().unwrap()), [3, 4]);
    let confirmed = spool.confirm(ids[2]).wait().unwrap();
    assert_eq!(
        confirmed,
        Amount {
            entries: 3,
            bytes: 3 + 3 * ENTRY_COST
        }
    );
    assert_eq!(
        bodies(spool.after(EntryId::START, 10).wait().unwrap()),
        [3, 4]
    );
    spool.confirm(ids[4]).wait().unwrap();
    assert_eq!(spool.held().wait().unwrap(), Amount::default());

    // Ids go on, so a late confirmation of old entries cannot hit new ones.
    drop((spool, store));
    let store = open(&folder);
    let spool = self::spool(&store, 100, 100_000);
    let Appended::Stored { id, .. } = spool.append(KINDS[0], vec![9]).wait().unwrap() else {
        panic!("no room")
    };
    assert!(id > ids[4]);
}

#[test]
fn large_answers_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let spool = spool(&store, 100, 100_000_000);
    for _ in 0..4 {
        spool.append(KINDS[0], vec![0; 700_000]).wait().unwrap();
    }
    assert_eq!(spool.after(EntryId::START, 10).wait().unwrap().len(), 2);
}

#[test]
fn spools_of_one_store_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let limits = Limits {
        entries: 1,
        bytes: 1000,
    };
    let one = Spool::new(store.clone(), "one", limits);
    let two = Spool::new(store.clone(), "two", limits);
    one.append(KINDS[0], b"1".to_vec()).wait().unwrap();
    two.append(KINDS[0], b"2".to_vec()).wait().unwrap();
    assert_eq!(one.after(EntryId::START, 9).wait().unwrap()[0].body, b"1");
    one.confirm(EntryId::from_number(i64::MAX)).wait().unwrap();
    assert_eq!(two.held().wait().unwrap().entries, 1);
    assert!(two.lost().wait().unwrap().is_empty());
}

#[test]
fn a_change_given_up_leaves_no_message_about_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let spool = spool(&store, 10, 10_000);
    let inside = spool.clone();
    let refused = store.attempt(move |db| {
        inside.append_in(db, KINDS[2], b"about nothing")?;
        Err::<(), _>(Abort::Refuse("not now"))
    });
    assert!(matches!(
        refused.wait(),
        Err(AttemptError::Refused("not now"))
    ));
    assert_eq!(spool.held().wait().unwrap(), Amount::default());
}

#[derive(Debug, Clone)]
enum Step {
    Append { kind: usize, size: usize },
    Confirm { part: f64 },
    Restart,
    Resize { entries: u64, bytes: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KINDS.len(), 0..400_usize).prop_map(|(kind, size)| Step::Append { kind, size }),
        2 => (0.0..1.2_f64).prop_map(|part| Step::Confirm { part }),
        1 => Just(Step::Restart),
        1 => (0..8_u64, 0..2500_u64)
            .prop_map(|(entries, bytes)| Step::Resize { entries, bytes }),
    ]
}

/// The obvious way to do it, in memory.
#[derive(Default)]
struct Model {
    entries: Vec<(i64, Kind, usize)>,
    lost: BTreeMap<String, Amount>,
}

impl Model {
    fn held(&self) -> Amount {
        let bytes = self.entries.iter().map(|(_, _, size)| cost(*size)).sum();
        Amount {
            entries: u64::try_from(self.entries.len()).expect("small"),
            bytes,
        }
    }

    fn lose(&mut self, kind: Kind, size: usize) {
        let lost = self.lost.entry(kind.name.to_owned()).or_default();
        lost.entries += 1;
        lost.bytes += cost(size);
    }

    /// Whether there is room, with the entries dropped for it.
    fn make_room(&mut self, kind: Kind, size: usize, limits: Limits) -> Option<u64> {
        let mut left = self.entries.clone();
        let mut dropped = Vec::new();
        loop {
            let bytes: u64 = left.iter().map(|(_, _, size)| cost(*size)).sum();
            let count = u64::try_from(left.len()).expect("small");
            if count < limits.entries && bytes + cost(size) <= limits.bytes {
                break;
            }
            let first = left
                .iter()
                .min_by_key(|(id, kind, _)| (kind.priority, *id))
                .copied();
            let victim = first.filter(|(_, victim, _)| victim.priority <= kind.priority)?;
            left.retain(|(id, _, _)| *id != victim.0);
            dropped.push(victim);
        }
        self.entries = left;
        for (_, kind, size) in &dropped {
            self.lose(*kind, *size);
        }
        Some(u64::try_from(dropped.len()).expect("small"))
    }
}

fn cost(size: usize) -> u64 {
    ENTRY_COST + u64::try_from(size).expect("small")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_behaves_like_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder);
        let mut limits = Limits { entries: 5, bytes: 1200 };
        let mut model = Model::default();
        for step in steps {
            let spool = Spool::new(store.clone(), "test", limits);
            match step {
                Step::Append { kind, size } => {
                    let kind = KINDS[kind];
                    let appended = spool.append(kind, vec![7; size]).wait().unwrap();
                    match model.make_room(kind, size, limits) {
                        None => {
                            model.lose(kind, size);
                            prop_assert_eq!(appended, Appended::NoRoom);
                        }
                        Some(expected) => {
                            let Appended::Stored { id, dropped } = appended else {
                                return Err(TestCaseError::fail("there was room"));
                            };
                            prop_assert_eq!(dropped, expected);
                            model.entries.push((id.number(), kind, size));
                        }
                    }
                }
                Step::Confirm { part } => {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                             clippy::cast_precision_loss, reason = "an index into a short list")]
                    let index = (model.entries.len() as f64 * part) as usize;
                    let last = model.entries.get(index).or(model.entries.last());
                    let up_to = last.map_or(0, |(id, _, _)| *id);
                    model.entries.retain(|(id, _, _)| *id > up_to);
                    spool.confirm(EntryId::from_number(up_to)).wait().unwrap();
                }
                Step::Restart => {
                    drop(spool);
                    drop(store);
                    store = open(&folder);
                }
                Step::Resize { entries, bytes } => limits = Limits { entries, bytes },
            }
            let spool = Spool::new(store.clone(), "test", limits);
            let entries = spool.after(EntryId::START, usize::MAX).wait().unwrap();
            let found: Vec<_> =
                entries.iter().map(|e| (e.id.number(), e.kind.as_str(), e.body.len())).collect();
            let expected: Vec<_> =
                model.entries.iter().map(|(id, kind, size)| (*id, kind.name, *size)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(spool.held().wait().unwrap(), model.held());
            prop_assert_eq!(spool.lost().wait().unwrap(), model.lost.clone());
        }
    }
}

fn sample(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "INSERT INTO spool_entries (id, spool, kind, priority, body)
             VALUES (41, 'alerts', 'crash', 9, x'000102'), (42, 'logs', 'log', 1, x'ff00');
         INSERT INTO spool_totals VALUES ('alerts', 1, 67), ('logs', 1, 66);
         INSERT INTO spool_lost VALUES ('logs', 'log', 3, 300);",
    )
}

fn rows_survive(db: &Connection, _from: u32) {
    let body: Vec<u8> = db
        .query_row(
            "SELECT body FROM spool_entries WHERE id = 41 AND kind = 'crash'",
            [],
            |row| row.get(0),
        )
        .expect("the alert");
    assert_eq!(body, [0, 1, 2]);
    let lost: i64 = db
        .query_row(
            "SELECT entries FROM spool_lost WHERE kind = 'log'",
            [],
            |row| row.get(0),
        )
        .expect("the loss");
    assert_eq!(lost, 3);
    let next: i64 = db
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = 'spool_entries'",
            [],
            |row| row.get(0),
        )
        .expect("the last id");
    assert_eq!(next, 42);
}

#[test]
fn every_released_version_can_be_upgraded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/spool");
    check_upgrades(&SCHEMA, &folder, sample, rows_survive);
}
