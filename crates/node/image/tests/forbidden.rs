//! Servers that answer 403: the others, and new addresses.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::server::{Faults, FileServer};
use common::{TestLayout, image, open_with, settings};
use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{BlobUrls, BoxError, HttpSettings, UrlSource};

/// Gives old URLs for each blob once, and new ones from then on.
#[derive(Debug)]
struct Renewing {
    old: Vec<String>,
    new: Vec<String>,
    asked: Mutex<BTreeMap<Digest, usize>>,
}

impl BlobUrls for Renewing {
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>> {
        let mut asked = self.asked.lock().expect("nothing here panics");
        let times = asked.entry(digest).or_default();
        *times += 1;
        let bases = if *times == 1 { &self.old } else { &self.new };
        let urls = bases
            .iter()
            .map(|base| format!("{base}/{}", digest.to_hex()))
            .collect();
        Box::pin(std::future::ready(Ok(urls)))
    }
}

#[tokio::test]
async fn a_403_asks_for_new_urls() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let always = Faults {
        forbid: usize::MAX,
        ..Faults::default()
    };
    let forbidding = FileServer::start(layout.blobs(), always);
    let good = FileServer::start(layout.blobs(), Faults::default());
    let old = vec![forbidding.url()];
    let urls = install_by_renewing(digest, old, vec![good.url()]).await;
    let asked = urls.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), layout.blobs().len());
    assert!(asked.values().all(|times| *times == 2), "{asked:?}");
    assert_eq!(forbidding.asked().len(), asked.len());
}

#[tokio::test]
async fn a_server_that_answers_403_for_ever_hides_no_other() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let always = Faults {
        forbid: usize::MAX,
        ..Faults::default()
    };
    let forbidding = FileServer::start(layout.blobs(), always);
    let good = FileServer::start(layout.blobs(), Faults::default());
    let both = vec![forbidding.url(), good.url()];
    let urls = install_by_renewing(digest, both.clone(), both).await;
    let asked = urls.asked.lock().unwrap().clone();
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    assert_eq!(good.asked().len(), layout.blobs().len());
}

async fn install_by_renewing(digest: Digest, old: Vec<String>, new: Vec<String>) -> Arc<Renewing> {
    let urls = Arc::new(Renewing {
        old,
        new,
        asked: Mutex::default(),
    });
    let source = UrlSource::new(urls.clone(), HttpSettings::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    store.install(digest, Arc::new(source), None).await.unwrap();
    urls
}
