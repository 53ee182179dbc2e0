//! Looking at items that are somewhere else.

mod common;

use common::server::{Faults, FileServer};
use common::{TestLayout, image, open_with, settings, tree, url_source};
use muster_image::{FetchBlobError, InstallError};

const LAYER: usize = 300_000;

#[tokio::test]
async fn what_an_item_is_can_be_seen_without_its_layers_and_without_a_trace() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, LAYER));
    let server = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let before = tree(&folder.path().join("images"));

    let seen = store.inspect(digest, url_source(&[&server.url()])).await;
    let seen = seen.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].item_config.hostname.as_deref(), Some("host-1"));
    assert!(server.sent() < LAYER as u64, "{} bytes came", server.sent());
    assert_eq!(tree(&folder.path().join("images")), before);
    assert_eq!(store.mirrored(digest).await.unwrap(), None);

    // It is what would come.
    let whole = store
        .mirror(digest, url_source(&[&server.url()]), None)
        .await;
    assert_eq!(whole.unwrap(), seen);
    // What is here is not asked for.
    let asked = server.asked().len();
    let again = store.inspect(digest, url_source(&[&server.url()])).await;
    assert_eq!(again.unwrap(), seen);
    assert_eq!(server.asked().len(), asked);
}

#[tokio::test]
async fn what_cannot_be_seen_says_why_at_once() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let corrupt = Faults {
        corrupt: Some(5),
        ..Faults::default()
    };
    let server = FileServer::start(layout.blobs(), corrupt);
    let wrong = store.inspect(digest, url_source(&[&server.url()])).await;
    let Err(InstallError::Fetch { source, .. }) = wrong else {
        panic!("{wrong:?}");
    };
    assert!(
        matches!(source, FetchBlobError::WrongContent { .. }),
        "{source}"
    );

    server.set(Faults {
        missing: true,
        ..Faults::default()
    });
    let asked = server.asked().len();
    let gone = store.inspect(digest, url_source(&[&server.url()])).await;
    let Err(InstallError::Fetch { source, .. }) = gone else {
        panic!("{gone:?}");
    };
    assert!(
        matches!(source, FetchBlobError::GivenUp { tries: 1, .. }),
        "{source}"
    );
    assert_eq!(server.asked().len(), asked + 1, "without a second try");
}
