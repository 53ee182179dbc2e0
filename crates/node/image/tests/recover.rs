//! A database that is lost: what is on disk is compared, not got again.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use common::{TestLayout, image, layer_content, noise, open_with, settings};
use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{BlobPlace, BlobSource, BoxError, ImageStore, OpenReport};

const SIZE: usize = 50_000;

/// A source that remembers what was asked for.
#[derive(Debug)]
struct Remembering {
    source: Arc<dyn BlobSource>,
    asked: Mutex<BTreeSet<Digest>>,
}

impl BlobSource for Remembering {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        self.asked.lock().unwrap().insert(digest);
        self.source.places(digest)
    }
}

async fn without_database(folder: &Path) -> (ImageStore, OpenReport) {
    std::fs::remove_dir_all(folder.join("state")).unwrap();
    open_with(settings(folder)).await
}

#[tokio::test]
async fn layers_outlive_the_database() {
    muster_lab::require!(Root);
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, SIZE));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let before = store.install(digest, layout.source(), None).await.unwrap();
    drop(store);

    let (store, report) = without_database(folder.path()).await;
    assert_eq!((report.recovered.len(), report.dropped.len()), (3, 0));
    // Nobody wants anything yet, and instances may be running on them: they are not for the collector.
    store.collect(SystemTime::now()).await.unwrap();
    let source = Arc::new(Remembering {
        source: layout.source(),
        asked: Mutex::default(),
    });
    let after = store.install(digest, source.clone(), None).await.unwrap();
    assert_eq!(after, before);
    // Of the first document nobody knows the size, so that it comes again; everything else was there.
    assert_eq!(*source.asked.lock().unwrap(), BTreeSet::from([digest]));
    assert_eq!(layer_content(&after.layers[1], 2), noise(2, SIZE));
    drop(store);
    // They are in the database again.
    let (store, report) = open_with(settings(folder.path())).await;
    assert_eq!(report, OpenReport::default());
    assert_eq!(store.installed(digest).await.unwrap(), Some(before));
}

#[tokio::test]
async fn a_layer_that_is_not_what_is_written_on_it_goes() {
    muster_lab::require!(Root);
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, SIZE));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let image = store.install(digest, layout.source(), None).await.unwrap();
    drop(store);
    std::fs::write(image.layers[0].join("opt/data-1"), "damage").unwrap();
    let (store, report) = without_database(folder.path()).await;
    assert_eq!((report.recovered.len(), report.dropped.len()), (2, 1));
    assert!(!image.layers[0].exists());
    let again = store.install(digest, layout.source(), None).await.unwrap();
    assert_eq!(layer_content(&again.layers[0], 1), noise(1, SIZE));
}
