use muster_firewall::{Amounts, Counters, InstanceId};
use muster_store::{OnDamage, StoreConfig};

use super::*;
use crate::account::Moment;
use crate::ledger::{Ledger, Limits};

fn boot(id: &str) -> BootId {
    BootId(id.to_owned())
}

#[tokio::test]
async fn accounts_come_back_and_counters_only_within_a_boot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servicemanager.db");
    let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
    let store = Store::open(&config).unwrap().store;
    assert_eq!(load(&store, &boot("1")).await.unwrap(), BTreeMap::new());

    let id = InstanceId::new("one").unwrap();
    let mut ledger = Ledger::default();
    let now = Moment::new(1_767_225_600);
    ledger.add(
        id.clone(),
        [172, 17, 0, 2].into(),
        Limits::default(),
        false,
        now,
    );
    let amounts = |download, upload| Amounts { download, upload };
    let counters = Counters::new(amounts(7, u64::MAX), [(id.clone(), amounts(5, 6))]);
    ledger.observe(&counters, now);
    let saved = ledger.accounts().clone();
    save(&store, &boot("1"), saved.clone(), Vec::new())
        .await
        .unwrap();

    let mut loaded = load(&store, &boot("1")).await.unwrap();
    // The database's numbers are signed; nobody will live to see the difference.
    let system = loaded.get_mut(&Holder::System).unwrap();
    assert_eq!(system.upload.total, i64::MAX.unsigned_abs());
    system.upload = saved[&Holder::System].upload;
    assert_eq!(loaded, saved);

    let after_reboot = load(&store, &boot("2")).await.unwrap();
    let account = after_reboot[&Holder::Instance(id.clone())].download;
    assert_eq!((account.total, account.counter), (5, 0));

    save(
        &store,
        &boot("2"),
        BTreeMap::new(),
        vec![Holder::Instance(id)],
    )
    .await
    .unwrap();
    assert_eq!(
        load(&store, &boot("2")).await.unwrap().len(),
        1,
        "the node's is left"
    );
}

#[test]
fn old_databases_are_upgraded() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    muster_store::testing::check_upgrades(
        &SCHEMA,
        fixtures.as_ref(),
        |db| {
            db.execute_batch(
                "INSERT INTO trafficmonitor VALUES ('in_system', 100, 7, 0, 3, 23641, 5, 2);
                 INSERT INTO trafficmonitor VALUES ('out_one', 100, 9, 0, 9, 23641, 9, 0);
                 INSERT INTO traffic_boot VALUES ('b1');",
            )
        },
        |db, _| {
            let accounts = read(db, "b1").unwrap();
            assert_eq!(accounts[&Holder::System].download.total, 7);
            assert_eq!(accounts[&Holder::System].download.counter, 2);
            assert_eq!(accounts.len(), 2);
        },
    );
}
