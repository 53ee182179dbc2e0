//! What is wanted, said by several at a time.

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use common::{TestLayout, image, layer, open_with, settings};
use muster_lab::oci::{Compression, Image};

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

#[tokio::test]
async fn what_is_wanted_again_is_not_removed_for_what_comes_after_it() {
    let mut layout = TestLayout::new();
    let mut add = |name: &str, seed| {
        let layer = layer(seed, 400_000, Compression::None);
        layout.add(name, &Image::new().layer(layer))
    };
    let [old, other, new] = [add("old", 1), add("other", 2), add("new", 3)];
    let folder = tempfile::tempdir().unwrap();
    let mut small = settings(folder.path());
    small.documents.document_bytes = 64 << 10;
    // A third one has room only instead of one of two.
    small.max_bytes = Some(1_500_000);
    let (store, _) = open_with(small).await;
    let now = SystemTime::now();
    store.install(old, layout.source(), None).await.unwrap();
    store.install(other, layout.source(), None).await.unwrap();
    store.keep(&BTreeSet::from([other]), now).await.unwrap();
    let later = now + Duration::from_secs(60);
    store.keep(&BTreeSet::new(), later).await.unwrap();
    assert_eq!(store.want(new).await.unwrap(), None);
    // The one that has been removed for longest would go first.
    assert!(store.want(old).await.unwrap().is_some());
    store.install(new, layout.source(), None).await.unwrap();
    assert!(store.installed(old).await.unwrap().is_some());
    assert!(store.installed(other).await.unwrap().is_none());
    // It stays wanted over a restart.
    drop(store);
    let (store, _) = open_with(settings(folder.path())).await;
    assert_eq!(store.inventory().items[&old].removed_at, None);
}
