//! The check that runs in the background: finds damage and repairs it by itself.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use common::{TestLayout, image, layer_content, noise, open_with, settings};
use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{BlobPlace, BlobSource, BoxError, CheckSettings, ImageStore, InstalledImage};

const OFTEN: CheckSettings = CheckSettings {
    every: Duration::from_millis(50),
    repair_again: Duration::from_millis(10),
    bytes_per_second: u64::MAX,
};
const SIZE: usize = 50_000;

/// A source that can be away, and counts who asks.
#[derive(Debug)]
struct Moody {
    source: Arc<dyn BlobSource>,
    is_there: AtomicBool,
    asked: AtomicUsize,
}

impl BlobSource for Moody {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.is_there.load(Ordering::SeqCst) {
            true => self.source.places(digest),
            false => Box::pin(async { Err("it is away".into()) }),
        }
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), looks).await;
    assert!(waited.is_ok(), "never: {what}");
}

fn damage(image: &InstalledImage) {
    std::fs::write(image.layers[0].join("opt/data-1"), "damage").unwrap();
}

async fn is_whole(store: &ImageStore, digest: Digest) -> bool {
    let installed = store.installed(digest).await.unwrap();
    installed.is_some_and(|image| layer_content(&image.layers[0], 1) == noise(1, SIZE))
}

struct Rig {
    store: ImageStore,
    digest: Digest,
    installed: InstalledImage,
    source: Arc<Moody>,
    _layout: TestLayout,
}

async fn rig(folder: &Path, is_there: bool) -> Rig {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, SIZE));
    let (store, _) = open_with(settings(folder)).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    let source = Arc::new(Moody {
        source: layout.source(),
        is_there: AtomicBool::new(is_there),
        asked: AtomicUsize::new(0),
    });
    Rig {
        store,
        digest,
        installed,
        source,
        _layout: layout,
    }
}

impl Rig {
    fn keep_checked(&self) -> tokio::task::JoinHandle<()> {
        let (store, source) = (self.store.clone(), Arc::clone(&self.source));
        tokio::spawn(async move { store.keep_checked(source, OFTEN).await })
    }
}

#[tokio::test]
async fn damage_is_repaired_without_anybody_asking_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), true).await;
    let task = rig.keep_checked();
    for _ in 0..3 {
        damage(&rig.installed);
        until("it is repaired", async || {
            is_whole(&rig.store, rig.digest).await
        })
        .await;
    }
    let before = rig.source.asked.load(Ordering::SeqCst);
    // Rounds that find nothing ask nobody: two more of them.
    tokio::time::sleep(OFTEN.every * 3).await;
    assert_eq!(rig.source.asked.load(Ordering::SeqCst), before);
    task.abort();
}

#[tokio::test]
async fn a_repair_that_fails_is_tried_again_until_the_source_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), false).await;
    damage(&rig.installed);
    let task = rig.keep_checked();
    let asked = || rig.source.asked.load(Ordering::SeqCst);
    until("it was asked again", async || asked() > 3).await;
    assert_eq!(rig.store.installed(rig.digest).await.unwrap(), None);
    rig.source.is_there.store(true, Ordering::SeqCst);
    until("it is repaired", async || {
        is_whole(&rig.store, rig.digest).await
    })
    .await;
    task.abort();
}

#[tokio::test]
async fn what_nobody_wants_any_more_is_not_got_again() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), false).await;
    damage(&rig.installed);
    let task = rig.keep_checked();
    let asked = || rig.source.asked.load(Ordering::SeqCst);
    until("it was asked for", async || asked() > 0).await;
    let kept = rig.store.keep(&BTreeSet::new(), SystemTime::now()).await;
    kept.unwrap();
    // One repair may be under way; then nobody asks for it.
    until("the list is empty", async || {
        let before = asked();
        tokio::time::sleep(OFTEN.every).await;
        asked() == before
    })
    .await;
    rig.source.is_there.store(true, Ordering::SeqCst);
    tokio::time::sleep(OFTEN.every * 2).await;
    assert_eq!(rig.store.installed(rig.digest).await.unwrap(), None);
    task.abort();
}

#[tokio::test]
async fn what_could_not_be_repaired_is_repaired_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), false).await;
    damage(&rig.installed);
    assert_eq!(rig.store.check(u64::MAX).await.unwrap().damaged.len(), 1);
    assert_eq!(rig.store.installed(rig.digest).await.unwrap(), None);
    let Rig {
        store,
        digest,
        source,
        installed,
        _layout,
    } = rig;
    drop(store);

    let (store, _) = open_with(settings(folder.path())).await;
    source.is_there.store(true, Ordering::SeqCst);
    let rig = Rig {
        store,
        digest,
        installed,
        source,
        _layout,
    };
    let task = rig.keep_checked();
    until("it is repaired", async || {
        is_whole(&rig.store, rig.digest).await
    })
    .await;
    task.abort();
}
