//! Items, layouts and keepers for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::domain::{Digest, ItemType};
use muster_desired::{ImageSource, Item};
use muster_items::{Cloud, Items, ItemsSettings};
use muster_lab::oci::{Compression, Image, Layer, LayerBuilder, Layout};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;

/// Settings for items below `folder`, without long waits.
pub(crate) fn settings(folder: &Path) -> ItemsSettings {
    let mut settings = ItemsSettings::new(folder.join("items"));
    settings.retry_delay = Duration::from_millis(1);
    settings
}

pub(crate) async fn open_with(settings: ItemsSettings, cloud: Option<Cloud>) -> Items {
    let path = settings.folder.parent().unwrap().join("state/cm.db");
    let config = StoreConfig::new(path, "items-test 1", OnDamage::Refuse)
        .schema(&muster_image::SCHEMA)
        .schema(&muster_items::SCHEMA);
    let db = Store::open(&config).unwrap().store;
    Items::open(settings, db, cloud).await.unwrap()
}

/// Without a cloud.
pub(crate) async fn open(folder: &Path) -> Items {
    open_with(settings(folder), None).await
}

pub(crate) fn item(id: &str, version: &str, image: ImageSource) -> Item {
    Item {
        id: id.parse().unwrap(),
        kind: ItemType::Service,
        version: version.to_owned(),
        owner: None,
        image,
    }
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

pub(crate) fn layer(seed: u64, bytes: usize) -> Layer {
    let file = LayerBuilder::new().file("data", noise(seed, bytes), 0o644);
    file.build(Compression::Gzip).unwrap()
}

/// An image with one layer of noise, a port and an item configuration.
pub(crate) fn image(seed: u64, bytes: usize) -> Image {
    Image::new()
        .layer(layer(seed, bytes))
        .entrypoint(["/data"])
        .exposed_ports(["8080/tcp"])
        .item_config(serde_json::json!({
            "hostname": format!("host-{seed}"),
            "runtimes": [{"codename": "crun"}],
            "quotas": {"ramLimit": 1024},
            "allowedConnections": {"store/9000/tcp": {}},
            "resources": [{"name": "camera", "mode": "rw"}]
        }))
}

/// An image layout in a folder of its own.
pub(crate) struct TestLayout {
    pub(crate) folder: TempDir,
    pub(crate) layout: Layout,
}

impl TestLayout {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        Self { folder, layout }
    }

    /// With one image.
    pub(crate) fn of(image: &Image) -> (Self, Digest) {
        let mut layout = Self::new();
        let digest = layout.add("it", image);
        (layout, digest)
    }

    pub(crate) fn add(&mut self, name: &str, image: &Image) -> Digest {
        let digest = self.layout.add(name, image.build()).unwrap();
        digest.as_str().parse().unwrap()
    }

    /// An index of all images, as a blob of its own.
    pub(crate) fn index(&self) -> Digest {
        let index = self.layout.add_index_blob().unwrap();
        index.as_str().parse().unwrap()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn source(&self, index: Option<Digest>) -> ImageSource {
        from_layout(self.path(), index)
    }

    /// Content of a blob.
    pub(crate) fn blob(&self, digest: &Digest) -> Vec<u8> {
        std::fs::read(self.layout.blob_folder().join(digest.to_hex())).unwrap()
    }

    /// Digests of all blobs.
    pub(crate) fn blobs(&self) -> Vec<Digest> {
        let files = std::fs::read_dir(self.layout.blob_folder()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<Digest> = names
            .map(|name| format!("sha256:{name}").parse().unwrap())
            .collect();
        found.sort();
        found
    }
}

pub(crate) fn from_layout(path: PathBuf, index: Option<Digest>) -> ImageSource {
    let name = None;
    ImageSource::Layout { path, name, index }
}

/// Digests of the blobs that a keeper has, each verified.
pub(crate) fn kept(items: &Items) -> Vec<Digest> {
    let files = std::fs::read_dir(items.blob_folder().join("sha256")).unwrap();
    let mut found: Vec<Digest> = files
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let digest: Digest = format!("sha256:{name}").parse().unwrap();
            let content = std::fs::read(file.path()).unwrap();
            let found = muster_lab::oci::BlobDigest::of(&content);
            assert_eq!(found.as_str(), digest.to_string(), "a damaged blob");
            digest
        })
        .collect();
    found.sort();
    found
}
