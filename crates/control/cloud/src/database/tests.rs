use std::collections::BTreeMap;

use muster_store::testing::check_upgrades;
use muster_store::{OnDamage, StoreConfig};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::message::Outgoing;
use crate::testing::samples;

struct Rig {
    outbox: Outbox,
    store: Store,
    _folder: TempDir,
}

async fn rig(limit: u64) -> Rig {
    let folder = tempfile::tempdir().expect("a folder");
    let config = StoreConfig::new(folder.path().join("cm.db"), "test", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("a database")
        .store;
    Rig {
        outbox: Outbox::open(store.clone(), limit).await.expect("an outbox"),
        store,
        _folder: folder,
    }
}

fn row(class: Class, number: u64, padding: usize) -> Row {
    let body = match class {
        Class::Alerts => serde_json::to_string(&samples::alert(number)).expect("JSON"),
        Class::Monitoring => Outgoing::from(samples::monitoring(number)).data(None),
        Class::Logs | Class::Answers => Outgoing::from(samples::numbered(number)).data(None),
    };
    // White space is as good as content.
    let body = format!("{body}{}", " ".repeat(padding));
    Row {
        class,
        key: None,
        body,
    }
}

/// The numbers in a message.
fn numbers(class: Class, body: &str) -> Vec<u64> {
    let data: Value = serde_json::from_str(body).expect("JSON");
    let of = |list: &Value, key: &str| -> Vec<u64> {
        let list = list.as_array().expect("a list").iter();
        list.map(|it| it[key].as_u64().expect("a number")).collect()
    };
    match class {
        Class::Alerts => of(&data["items"], "value"),
        Class::Monitoring => of(&data["nodes"][0]["items"], "ram"),
        Class::Logs | Class::Answers => vec![data["instance"].as_u64().expect("a number")],
    }
}

const ALL: Due = Due {
    alerts: true,
    monitoring: true,
};

#[tokio::test]
async fn alerts_and_monitoring_are_put_together_in_order() {
    let rig = rig(1 << 20).await;
    for number in 0..5 {
        for class in Class::ALL {
            rig.outbox
                .append(vec![row(class, number, 0)])
                .await
                .expect("kept");
        }
    }
    assert_eq!(rig.outbox.kept().await.expect("a count"), 20);
    let later = Due {
        alerts: false,
        monitoring: true,
    };
    let taken = rig.outbox.take(later, 4).await.expect("taken");
    let classes: Vec<Class> = taken.iter().map(|it| it.class).collect();
    assert_eq!(
        classes,
        [
            Class::Monitoring,
            Class::Answers,
            Class::Answers,
            Class::Answers
        ]
    );
    let body = rig
        .outbox
        .body(taken[0].id)
        .await
        .expect("read")
        .expect("there");
    assert_eq!(numbers(Class::Monitoring, &body), [0, 1, 2, 3, 4]);

    let rest = rig.outbox.take(ALL, 100).await.expect("taken");
    assert_eq!(
        rest.iter().filter(|it| it.class == Class::Alerts).count(),
        1
    );
    let before = rig.outbox.taken_before().await.expect("read");
    let mut both: Vec<Taken> = taken.into_iter().chain(rest).collect();
    both.sort_by_key(|it| it.id);
    assert_eq!(before, both, "names last");
    for message in both {
        rig.outbox.remove(message.id).await.expect("removed");
    }
    assert_eq!(rig.outbox.kept().await.expect("a count"), 0);
    assert_eq!(rig.outbox.losses().await.expect("read"), Losses::new());
}

#[tokio::test]
async fn a_newer_state_takes_the_place_of_one_that_was_not_sent() {
    let rig = rig(1 << 20).await;
    let keyed = |number| Row {
        key: Some("a".to_owned()),
        ..row(Class::Answers, number, 0)
    };
    rig.outbox.append(vec![keyed(1)]).await.expect("kept");
    rig.outbox.append(vec![keyed(2)]).await.expect("kept");
    let taken = rig.outbox.take(ALL, 10).await.expect("taken");
    assert_eq!(taken.len(), 1);
    let body = rig
        .outbox
        .body(taken[0].id)
        .await
        .expect("read")
        .expect("there");
    assert_eq!(numbers(Class::Answers, &body), [2]);
    // One that is on its way is not touched.
    rig.outbox.append(vec![keyed(3)]).await.expect("kept");
    assert_eq!(rig.outbox.kept().await.expect("a count"), 2);
}

#[tokio::test]
async fn losses_are_told_once_as_an_alert() {
    let rig = rig(20_000).await;
    for number in 0..100 {
        rig.outbox
            .append(vec![row(Class::Monitoring, number, 500)])
            .await
            .expect("kept");
    }
    let losses = rig.outbox.losses().await.expect("read");
    let lost = losses[&Class::Monitoring].entries;
    assert!(lost > 50, "{losses:?}");
    for _ in 0..2 {
        rig.outbox
            .report_losses("main", Timestamp::UNIX_EPOCH)
            .await
            .expect("told");
    }
    let taken = rig.outbox.take(ALL, 100).await.expect("taken");
    let alerts: Vec<&Taken> = taken
        .iter()
        .filter(|it| it.class == Class::Alerts)
        .collect();
    assert_eq!(alerts.len(), 1);
    let body = rig
        .outbox
        .body(alerts[0].id)
        .await
        .expect("read")
        .expect("there");
    let data: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(data["items"].as_array().expect("a list").len(), 1, "once");
    let message = data["items"][0]["message"].as_str().expect("a text");
    assert!(message.contains(&format!("monitoring {lost}")), "{message}");
}

#[tokio::test]
async fn a_lower_limit_takes_effect_at_once() {
    let Rig {
        outbox,
        store,
        _folder,
    } = rig(1 << 20).await;
    for number in 0..100 {
        outbox
            .append(vec![row(Class::Alerts, number, 500)])
            .await
            .expect("kept");
    }
    let smaller = Outbox::open(store, 10_000).await.expect("an outbox");
    assert!(smaller.kept().await.expect("a count") < 20);
    let kept = smaller.kept().await.expect("a count");
    assert_eq!(
        smaller.losses().await.expect("read")[&Class::Alerts].entries,
        100 - kept
    );
}

#[derive(Debug, Clone)]
enum Step {
    Append(Class, usize),
    Take(bool, bool, usize),
    Deliver(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop::sample::select(Class::ALL.to_vec());
    prop_oneof![
        8 => (class, 0usize..2000).prop_map(|(class, size)| Step::Append(class, size)),
        1 => (any::<bool>(), any::<bool>(), 0usize..6).prop_map(|(alerts, monitoring, room)| {
            Step::Take(alerts, monitoring, room)
        }),
        1 => (0usize..6).prop_map(Step::Deliver),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_is_lost_without_being_counted_and_order_holds(steps in prop::collection::vec(step(), 0..150)) {
        const LIMIT: u64 = 30_000;
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async move {
            let rig = rig(LIMIT).await;
            let mut appended: BTreeMap<Class, u64> = BTreeMap::new();
            let mut delivered: BTreeMap<Class, Vec<u64>> = BTreeMap::new();
            let mut on_the_way: Vec<(Taken, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Append(class, size) => {
                        let number = appended.entry(class).or_default();
                        rig.outbox.append(vec![row(class, *number, size)]).await.expect("kept");
                        *number += 1;
                    }
                    Step::Take(alerts, monitoring, room) => {
                        let taken = rig.outbox.take(Due { alerts, monitoring }, room).await.expect("taken");
                        assert!(taken.len() <= room);
                        for it in taken {
                            let body = rig.outbox.body(it.id).await.expect("read").expect("there");
                            on_the_way.push((it, cost(body.len())));
                        }
                    }
                    Step::Deliver(at) if at < on_the_way.len() => {
                        let (it, _) = on_the_way.remove(at);
                        let body = rig.outbox.body(it.id).await.expect("read").expect("what is sent stays");
                        delivered.entry(it.class).or_default().extend(numbers(it.class, &body));
                        rig.outbox.remove(it.id).await.expect("removed");
                    }
                    Step::Deliver(_) => {}
                }
                let total: u64 = rig.store
                    .read(|db| db.query_row("SELECT sum(bytes) FROM cloud_account", [], |row| row.get(0)))
                    .await.expect("a sum");
                let truth: u64 = rig.store
                    .read(|db| db.query_row(
                        "SELECT coalesce(sum(octet_length(body) + 96), 0) FROM cloud_outbox", [], |row| row.get(0)))
                    .await.expect("a sum");
                assert_eq!(total, truth, "the account is right");
                let sent: u64 = on_the_way.iter().map(|it| it.1).sum();
                assert!(total <= LIMIT + sent, "{total} bytes, of which {sent} on their way");
            }
            // Everything that is left arrives.
            loop {
                let taken = rig.outbox.take(ALL, 100).await.expect("taken");
                if taken.is_empty() {
                    break;
                }
                on_the_way.extend(taken.into_iter().map(|it| (it, 0)));
            }
            on_the_way.sort_by_key(|(it, _)| it.id);
            for (it, _) in on_the_way {
                let body = rig.outbox.body(it.id).await.expect("read").expect("there");
                delivered.entry(it.class).or_default().extend(numbers(it.class, &body));
                rig.outbox.remove(it.id).await.expect("removed");
            }
            let losses = rig.outbox.losses().await.expect("read");
            for (class, count) in appended {
                let arrived = delivered.remove(&class).unwrap_or_default();
                let mut unique = arrived.clone();
                unique.sort_unstable();
                unique.dedup();
                assert_eq!(unique.len(), arrived.len(), "nothing twice");
                let lost = losses.get(&class).map_or(0, |it| it.entries);
                let arrived = u64::try_from(arrived.len()).expect("few");
                assert_eq!(arrived + lost, count, "{class:?}: lost {lost}");
            }
        });
    }
}

#[test]
fn old_databases_are_upgraded() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &folder,
        |db| {
            insert(db, &row(Class::Alerts, 7, 0))?;
            insert(db, &row(Class::Answers, 8, 0))?;
            let sql = "UPDATE cloud_outbox SET txn = 'kept-name' WHERE class = 2";
            db.execute(sql, []).map(drop)
        },
        |db, _| {
            let taken = seal::taken(db).expect("rows");
            assert_eq!(taken.len(), 1);
            assert_eq!(taken[0].txn, "kept-name");
            let count: u64 = db
                .query_row(
                    "SELECT entries FROM cloud_account WHERE class = 3",
                    [],
                    |row| row.get(0),
                )
                .expect("the account");
            assert_eq!(count, 1);
        },
    );
}
