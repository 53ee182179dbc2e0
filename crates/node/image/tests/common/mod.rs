//! Stores, images and servers for tests.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, reason = "tests")]

pub(crate) mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{
    BlobUrls, BoxError, HttpSettings, ImageStore, OpenReport, SCHEMA, StoreSettings, UrlSource,
};
use muster_item::Platform;
use muster_lab::oci::{Compression, Image, Layer, LayerBuilder, Layout};
use muster_store::{OnDamage, Store, StoreConfig};

/// Settings for a store in `folder` that does not wait long.
pub(crate) fn settings(folder: &Path) -> StoreSettings {
    let mut settings = StoreSettings::new(folder.join("images"), Platform::of_this_program());
    settings.retry_delay = Duration::from_millis(1);
    settings.tries = 3;
    settings
}

pub(crate) async fn open_with(settings: StoreSettings) -> (ImageStore, OpenReport) {
    let db = settings.folder.parent().unwrap().join("state/sm.db");
    let config = StoreConfig::new(db, "image-test 1", OnDamage::StartEmpty).schema(&SCHEMA);
    let db = Store::open(&config).expect("the database opens").store;
    ImageStore::open(settings, db)
        .await
        .expect("the store opens")
}

/// Bytes that do not compress, different for each seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A layer with one folder, one file of noise and a link.
pub(crate) fn layer(seed: u64, bytes: usize, compression: Compression) -> Layer {
    LayerBuilder::new()
        .folder("opt", 0o755)
        .file(format!("opt/data-{seed}"), noise(seed, bytes), 0o644)
        .link(format!("data-{seed}"), format!("opt/link-{seed}"))
        .build(compression)
        .unwrap()
}

/// An image with a layer of each kind, and an item configuration.
pub(crate) fn image(seed: u64, bytes: usize) -> Image {
    Image::new()
        .layer(layer(seed, bytes, Compression::Gzip))
        .layer(layer(seed + 1, bytes, Compression::Zstd))
        .layer(layer(seed + 2, bytes, Compression::None))
        .entrypoint(["/opt/run"])
        .env(["A=1"])
        .item_config(serde_json::json!({"hostname": format!("host-{seed}")}))
}

/// A layout in a folder of its own.
pub(crate) struct TestLayout {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) layout: Layout,
}

impl TestLayout {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        Self { folder, layout }
    }

    pub(crate) fn add(&mut self, name: &str, image: &Image) -> Digest {
        let digest = self.layout.add(name, image.build()).unwrap();
        digest.as_str().parse().unwrap()
    }

    pub(crate) fn source(&self) -> Arc<muster_image::LayoutSource> {
        Arc::new(muster_image::LayoutSource::open(self.folder.path()).unwrap())
    }

    /// Every blob by the path that a file server would give it.
    pub(crate) fn blobs(&self) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(self.layout.blob_folder()).unwrap();
        files
            .map(|file| {
                let file = file.unwrap();
                let name = file.file_name().into_string().unwrap();
                (format!("/{name}"), std::fs::read(file.path()).unwrap())
            })
            .collect()
    }
}

/// URLs below fixed servers, in order.
#[derive(Debug)]
pub(crate) struct Servers(pub(crate) Vec<String>);

impl BlobUrls for Servers {
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>> {
        let urls = self
            .0
            .iter()
            .map(|base| format!("{base}/{}", digest.to_hex()));
        let urls = urls.collect();
        Box::pin(std::future::ready(Ok(urls)))
    }
}

pub(crate) fn url_source(bases: &[&str]) -> Arc<UrlSource> {
    let urls = Servers(bases.iter().map(|base| (*base).to_owned()).collect());
    Arc::new(UrlSource::new(Arc::new(urls), HttpSettings::default()).unwrap())
}

/// The content of the file in each layer that [`layer`] made.
pub(crate) fn layer_content(folder: &Path, seed: u64) -> Vec<u8> {
    std::fs::read(folder.join(format!("opt/data-{seed}"))).unwrap()
}

/// Everything below a folder, as relative paths.
pub(crate) fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            found.push(entry.path().strip_prefix(folder).unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
