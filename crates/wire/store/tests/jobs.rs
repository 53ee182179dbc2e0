//! Reads and writes: what shares a commit, what undoes only itself, what a closure cannot do.

mod common;

use std::future::IntoFuture;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use common::{Place, add, count, rows};
use muster_store::rusqlite::{self, Connection};
use muster_store::{Abort, AttemptError, OnDamage, OpenStoreError, Store, StoreError};

#[test]
fn a_failing_write_undoes_only_itself() {
    let place = Place::new();
    let store = place.open().store;
    // Holds the thread, so that the others wait and share a transaction.
    let (entered, wait_entered) = sync_channel(1);
    let (release, wait_release) = sync_channel::<()>(1);
    let blocked = store.clone();
    let blocker = std::thread::spawn(move || {
        let block = move |_: &Connection| {
            entered.send(()).expect("the test waits");
            wait_release.recv().expect("the test lets go");
            Ok(())
        };
        blocked.write(block).wait()
    });
    wait_entered.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let results = runtime.block_on(async {
        let write = |number: i64| {
            let store = store.clone();
            async move {
                store
                    .write(move |db| {
                        add(db, &format!("{number}"))?;
                        match number {
                            3 => Err(rusqlite::Error::QueryReturnedNoRows),
                            5 => panic!("number five"),
                            _ => db.query_row("SELECT count(*) FROM notes", [], |row| {
                                row.get::<_, i64>(0)
                            }),
                        }
                    })
                    .await
            }
        };
        let tasks = tokio::task::LocalSet::new();
        let handles: Vec<_> = (0..8)
            .map(|number| tasks.spawn_local(write(number)))
            .collect();
        tasks
            .run_until(async {
                tokio::task::yield_now().await;
                release.send(()).expect("the blocker waits");
                let mut results = Vec::new();
                for handle in handles {
                    results.push(handle.await.expect("the task"));
                }
                results
            })
            .await
    });
    blocker.join().unwrap().unwrap();
    let seen: Vec<_> = results
        .iter()
        .map(|result| result.as_ref().ok().copied())
        .collect();
    assert_eq!(
        seen,
        [
            Some(1),
            Some(2),
            Some(3),
            None,
            Some(4),
            None,
            Some(5),
            Some(6)
        ],
        "each sees those before it, and not the ones undone"
    );
    assert!(matches!(&results[3], Err(StoreError::Statement { .. })));
    let Err(StoreError::Panicked { message, .. }) = &results[5] else {
        panic!("{:?}", results[5])
    };
    assert_eq!(message, "number five");
    assert_eq!(rows(&store), 6);
}

#[test]
fn a_change_can_be_given_up_for_a_reason() {
    #[derive(Debug, PartialEq)]
    struct TooMany(i64);
    let place = Place::new();
    let store = place.open().store;
    let add_up_to_two = |db: &Connection| {
        add(db, "x")?;
        let count = count(db)?;
        if count > 2 {
            Err(Abort::Refuse(TooMany(count)))
        } else {
            Ok(count)
        }
    };
    assert_eq!(store.attempt(add_up_to_two).wait().unwrap(), 1);
    assert_eq!(store.attempt(add_up_to_two).wait().unwrap(), 2);
    let refused = store.attempt(add_up_to_two).wait().unwrap_err();
    assert!(
        matches!(refused, AttemptError::Refused(TooMany(3))),
        "{refused:?}"
    );
    assert_eq!(rows(&store), 2);
}

#[test]
fn a_read_cannot_write() {
    let place = Place::new();
    let store = place.open().store;
    let error = store.read(|db| add(db, "sneaked in")).wait().unwrap_err();
    assert!(
        matches!(error, StoreError::Io { .. } | StoreError::Statement { .. }),
        "{error:?}"
    );
    assert_eq!(rows(&store), 0);
    store.write(|db| add(db, "regular")).wait().unwrap();
    assert_eq!(rows(&store), 1);
}

#[test]
fn a_closure_cannot_end_the_transaction_or_weaken_durability() {
    let place = Place::new();
    let store = place.open().store;
    let forbidden = [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "PRAGMA synchronous=OFF",
        "PRAGMA journal_mode=DELETE",
        "ATTACH ':memory:' AS other",
    ];
    for statement in forbidden {
        let error = store
            .write(move |db| db.execute_batch(statement))
            .wait()
            .unwrap_err();
        assert!(
            matches!(error, StoreError::Statement { .. }),
            "{statement}: {error:?}"
        );
    }
    // Its own savepoints are its own business.
    store
        .write(|db| db.execute_batch("SAVEPOINT s; RELEASE s"))
        .wait()
        .unwrap();
    let level =
        |db: &Connection| db.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0));
    assert_eq!(store.read(level).wait().unwrap(), 2);
}

/// The closure holds the last handle, too: the thread closes the database, and cannot wait for itself.
#[test]
fn work_handed_over_is_done_even_if_nobody_waits() {
    let place = Place::new();
    let store = place.open().store;
    let (entered, wait_entered) = sync_channel(1);
    let (release, wait_release) = sync_channel::<()>(1);
    let own = store.clone();
    let request = store.write(move |db| {
        entered.send(()).expect("the test waits");
        wait_release.recv().expect("the test lets go");
        let added = add(db, "unattended");
        drop(own);
        added
    });
    drop(store);
    let mut waiting = request.into_future();
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    wait_entered.recv().unwrap();
    drop(waiting);
    release.send(()).unwrap();

    let deadline = Instant::now() + Duration::from_secs(30);
    let store = loop {
        match Store::open(&place.config(OnDamage::Refuse)) {
            Ok(opened) => break opened.store,
            Err(OpenStoreError::InUse { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(rows(&store), 1);
}

#[test]
fn a_large_transaction_does_not_leave_a_large_log() {
    let place = Place::new();
    let store = place.open().store;
    let large = |db: &Connection| {
        for _ in 0..4000 {
            db.execute(
                "INSERT INTO notes (body) VALUES (hex(randomblob(2000)))",
                [],
            )?;
        }
        Ok(())
    };
    store.write(large).wait().unwrap();
    let length = || std::fs::metadata(place.log()).unwrap().len();
    assert!(length() > 16_000_000);
    // The answer comes before the checkpoint; the next write starts the log over.
    store.write(|db| add(db, "next")).wait().unwrap();
    assert!(length() <= 4 * 1024 * 1024, "{}", length());
    for _ in 0..3000 {
        store.write(|db| add(db, &"y".repeat(3000))).wait().unwrap();
    }
    assert!(length() <= 5 * 1024 * 1024, "{}", length());
}
