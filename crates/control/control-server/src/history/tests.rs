use std::sync::atomic::Ordering;

use muster_store::{OnDamage, StoreConfig};
use tempfile::TempDir;

use super::*;
use crate::facts::NoteKind;

fn store(folder: &TempDir) -> Store {
    let path = folder.path().join("servicemanager.db");
    let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
    Store::open(&config).expect("a database").store
}

fn note(number: usize) -> Note {
    Note::plain(NoteKind::Node, number.to_string(), "is connected")
}

fn alert(message: &str) -> v1::Alert {
    v1::Alert {
        timestamp: Some(SystemTime::now().into()),
        kind: "system".to_owned(),
        message: message.to_owned(),
        ..v1::Alert::default()
    }
}

async fn names(history: &History) -> Vec<String> {
    let events = history.after::<v1::Event>(0, None, 1000).await.unwrap();
    events.into_iter().map(|event| event.value.name).collect()
}

#[tokio::test]
async fn what_happened_is_there_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let opened = store(&folder);
    let (history, task) = History::open(opened.clone(), HistoryLimits::default())
        .await
        .unwrap();
    let task = tokio::spawn(task);
    history.note(note(1));
    history.alert(alert("the disk is full"));
    history.flush().await;
    assert_eq!(history.alerts_of_day(), 1);
    drop(history);
    task.await.unwrap();
    opened.close().await.unwrap();

    let (history, task) = History::open(store(&folder), HistoryLimits::default())
        .await
        .unwrap();
    let task = tokio::spawn(task);
    assert_eq!(history.alerts_of_day(), 1);
    history.note(note(2));
    history.flush().await;
    assert_eq!(names(&history).await, ["1", "2"]);
    let alerts = history.last::<v1::Alert>(None, 10).await.unwrap();
    assert_eq!(alerts[0].value.message, "the disk is full");
    assert_eq!(history.newest().borrow().event, 2);
    drop(history);
    task.await.unwrap();
}

#[tokio::test]
async fn only_so_many_are_kept_and_the_newest() {
    let folder = TempDir::new().unwrap();
    let limits = HistoryLimits {
        events: 3,
        ..HistoryLimits::default()
    };
    let (history, task) = History::open(store(&folder), limits).await.unwrap();
    let task = tokio::spawn(task);
    for number in 1..=5 {
        history.note(note(number));
    }
    history.flush().await;
    assert_eq!(names(&history).await, ["3", "4", "5"]);
    drop(history);
    task.await.unwrap();
}

#[tokio::test]
async fn nothing_older_is_kept() {
    let folder = TempDir::new().unwrap();
    let opened = store(&folder);
    let (old, now) = (v1::Event::default(), SystemTime::now());
    let kept = now - std::time::Duration::from_secs(3600);
    let written = opened.write(move |db| database::insert(db, 0, kept, &[old]));
    assert_eq!(written.await.unwrap(), 1);
    let limits = HistoryLimits {
        age: std::time::Duration::from_secs(1800),
        ..HistoryLimits::default()
    };
    let (history, task) = History::open(opened, limits).await.unwrap();
    let task = tokio::spawn(task);
    history.note(note(2));
    history.flush().await;
    assert_eq!(names(&history).await, ["2"]);
    assert_eq!(
        history.newest().borrow().event,
        2,
        "numbers are not used again"
    );
    drop(history);
    task.await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_is_counted_and_told() {
    let folder = TempDir::new().unwrap();
    let limits = HistoryLimits {
        queue: 4,
        ..HistoryLimits::default()
    };
    let (history, task) = History::open(store(&folder), limits).await.unwrap();
    // Nobody writes yet, so the queue fills.
    for number in 1..=10 {
        history.note(note(number));
    }
    assert_eq!(history.shared.lost.load(Ordering::Relaxed), 6);
    let task = tokio::spawn(task);
    history.flush().await;
    let events = history.after::<v1::Event>(0, None, 100).await.unwrap();
    let last = &events.last().unwrap().value;
    assert_eq!(events.len(), 5);
    assert_eq!(
        last.message,
        "6 events or alerts are missing here: more happened at once than could be written down"
    );
    assert!(last.warning && last.kind == "history");
    drop(history);
    task.await.unwrap();
}

#[tokio::test]
async fn long_texts_are_cut_at_a_character() {
    let folder = TempDir::new().unwrap();
    let limits = HistoryLimits {
        text_bytes: 10,
        ..HistoryLimits::default()
    };
    let (history, task) = History::open(store(&folder), limits).await.unwrap();
    let task = tokio::spawn(task);
    history.note(Note::plain(NoteKind::Config, "n", "ä".repeat(1000)));
    history.alert(alert(&"x".repeat(1000)));
    history.flush().await;
    let events = history.after::<v1::Event>(0, None, 1).await.unwrap();
    assert_eq!(events[0].value.message, "äääää...");
    let alerts = history.last::<v1::Alert>(None, 1).await.unwrap();
    assert_eq!(alerts[0].value.message, "xxxxxxxxxx...");
    drop(history);
    task.await.unwrap();
}

#[tokio::test]
async fn times_filter_what_is_read() {
    let folder = TempDir::new().unwrap();
    let (history, task) = History::open(store(&folder), HistoryLimits::default())
        .await
        .unwrap();
    let task = tokio::spawn(task);
    let at = |seconds: i64| prost_types::Timestamp { seconds, nanos: 0 };
    for seconds in [-5, 100, 200, 300] {
        history.alert(v1::Alert {
            timestamp: Some(at(seconds)),
            ..alert("")
        });
    }
    history.flush().await;
    let from = SystemTime::try_from(at(150)).unwrap();
    let seconds = |found: Vec<Numbered<v1::Alert>>| {
        let stamps = found.iter().map(|it| it.value.timestamp.unwrap().seconds);
        stamps.collect::<Vec<_>>()
    };
    let found = history.last::<v1::Alert>(Some(from), 10).await.unwrap();
    assert_eq!(seconds(found), [200, 300]);
    let found = history.last::<v1::Alert>(None, 2).await.unwrap();
    assert_eq!(
        seconds(found),
        [200, 300],
        "the newest, the oldest of them first"
    );
    let found = history
        .after::<v1::Alert>(0, Some(SystemTime::UNIX_EPOCH), 2)
        .await
        .unwrap();
    assert_eq!(seconds(found), [100, 200]);
    drop(history);
    task.await.unwrap();
}
