//! What is wanted, said by several at a time.

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use common::{TestLayout, image, open_with, settings};

#[tokio::test]
async fn of_several_who_say_what_is_wanted_the_last_counts() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    store.install(digest, layout.source(), None).await.unwrap();
    let (nothing, wanted) = (BTreeSet::new(), BTreeSet::from([digest]));
    let now = SystemTime::now();
    // The second is asked while the first is being written down.
    let (first, second) = tokio::join!(store.keep(&nothing, now), store.keep(&wanted, now));
    first.unwrap();
    second.unwrap();
    assert_eq!(store.inventory().items[&digest].removed_at, None);
    // Long after the time of what is not wanted.
    let later = now + Duration::from_secs(400 * 24 * 3600);
    assert!(store.collect(later).await.unwrap().is_empty());
    assert!(store.installed(digest).await.unwrap().is_some());
}
