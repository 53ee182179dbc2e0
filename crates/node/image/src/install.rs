//! Installing an item: its documents, then its layers, then its record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use muster_api::domain::Digest;
use muster_item::{
    Descriptor, Document, ImageConfig, ItemConfig, LayerFormat, Manifest, MediaType,
};
use tokio::sync::watch;

use crate::db;
use crate::documents;
use crate::error::InstallError;
use crate::fetch::FetchBlobError;
use crate::hash;
use crate::inventory::ItemRecord;
use crate::ledger::Pins;
use crate::look;
use crate::progress::{Meter, Progress};
use crate::source::BlobSource;
use crate::store::{ImageStore, Inner, InstalledImage};
use crate::take::{LayerOrder, disk};

/// Indexes that lead to indexes are followed so far.
const MAX_INDEXES: usize = 4;

/// One installation.
pub(crate) struct Job {
    pub(crate) source: Arc<dyn BlobSource>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) pins: Pins,
}

/// What the documents of an image say.
pub(crate) struct Image {
    pub(crate) manifest_digest: Digest,
    pub(crate) manifest: Manifest,
    pub(crate) image_config: ImageConfig,
    pub(crate) item_config: ItemConfig,
}

/// What is done with a layer.
enum Layer {
    Unpacked(LayerFormat),
    AsItIs,
    Nothing,
}

impl ImageStore {
    /// Gets everything of an item that is not there yet, and returns when all of it is on disk for good.
    ///
    /// What has come stays when this fails or is dropped, so the next try goes on from there. Several at the same time share what
    /// they have in common.
    pub async fn install(
        &self,
        digest: Digest,
        source: Arc<dyn BlobSource>,
        progress: Option<watch::Sender<Progress>>,
    ) -> Result<InstalledImage, InstallError> {
        let job = Job {
            source,
            meter: Arc::new(Meter::new(progress)),
            pins: Pins::new(&self.inner.ledger),
        };
        job.pins.add(digest);
        self.inner.ledger.until_gone(&digest).await;
        let (manifest_digest, manifest, documents) = self.fetch_manifest(&job, digest).await?;
        let mut record = record(manifest_digest, &manifest, documents)?;
        self.pin(&job, &record);
        // What was complete stays so: a repair that fails must not keep the item from starting with what there is.
        record.is_complete = self.is_complete(&digest, &record);
        self.record_item(digest, record.clone()).await?;
        muster_fault::hit(crate::fault::ITEM_BEGUN);

        let configs = [Some(&manifest.config), manifest.item_config.as_ref()];
        let configs: Vec<&Descriptor> = configs.into_iter().flatten().collect();
        job.meter.expect(self.missing_bytes(&manifest));
        for config in configs {
            self.fetch_document(&job, config.digest, Some(config.size))
                .await?;
        }
        let image = self.read_image(digest, manifest_digest, manifest).await?;
        self.fetch_layers(&job, &image).await?;
        job.meter.report();
        muster_fault::hit(crate::fault::ITEM_FETCHED);

        record.is_complete = true;
        self.record_item(digest, record).await?;
        muster_fault::hit(crate::fault::ITEM_COMPLETE);
        Ok(self.inner.present(digest, image))
    }

    /// Follows indexes down to the manifest for this node.
    async fn fetch_manifest(
        &self,
        job: &Job,
        digest: Digest,
    ) -> Result<(Digest, Manifest, BTreeSet<Digest>), InstallError> {
        let mut documents = BTreeSet::new();
        let (mut next, mut size) = (digest, None);
        for _ in 0..=MAX_INDEXES {
            job.pins.add(next);
            documents.insert(next);
            self.fetch_document(job, next, size).await?;
            let store = self.clone();
            let document = blocking(next, move || store.inner.read_document(&next)).await?;
            let index = match document {
                Document::Manifest(manifest) => return Ok((next, *manifest, documents)),
                Document::Index(index) => index,
            };
            let chosen = index.select(&self.inner.settings.platform);
            let chosen = chosen.map_err(|source| InstallError::Select {
                digest: next,
                source,
            })?;
            (next, size) = (chosen.digest, Some(chosen.size));
        }
        Err(InstallError::TooManyIndexes {
            digest,
            limit: MAX_INDEXES,
        })
    }

    pub(crate) fn pin(&self, job: &Job, record: &ItemRecord) {
        for digest in record.blobs.iter().chain(&record.layers) {
            job.pins.add(*digest);
        }
    }

    /// What has to come, as far as descriptors say.
    fn missing_bytes(&self, manifest: &Manifest) -> u64 {
        let state = self.inner.ledger.lock();
        let inventory = &state.inventory;
        let blobs: BTreeMap<Digest, u64> = manifest
            .blobs()
            .map(|blob| (blob.digest, blob.size))
            .filter(|(digest, _)| {
                !inventory.blobs.contains_key(digest) && !inventory.layers.contains_key(digest)
            })
            .collect();
        blobs.values().copied().fold(0, u64::saturating_add)
    }

    pub(crate) fn is_complete(&self, digest: &Digest, record: &ItemRecord) -> bool {
        let state = self.inner.ledger.lock();
        let known = state.inventory.items.get(digest);
        known.is_some_and(|known| known.is_complete && known.manifest == record.manifest)
    }

    pub(crate) async fn record_item(
        &self,
        digest: Digest,
        item: ItemRecord,
    ) -> Result<(), InstallError> {
        if self.inner.ledger.lock().inventory.items.get(&digest) == Some(&item) {
            return Ok(());
        }
        let row = item.clone();
        self.inner
            .db
            .write(move |db| db::put_item(db, &digest, &row))
            .await
            .map_err(|source| InstallError::Database { digest, source })?;
        self.inner
            .ledger
            .lock()
            .inventory
            .items
            .insert(digest, item);
        Ok(())
    }

    async fn read_image(
        &self,
        digest: Digest,
        manifest_digest: Digest,
        manifest: Manifest,
    ) -> Result<Image, InstallError> {
        let store = self.clone();
        let read = move || store.inner.read_image(manifest_digest, manifest);
        blocking(digest, read).await
    }

    async fn fetch_layers(&self, job: &Job, image: &Image) -> Result<(), InstallError> {
        let mut diff_ids = image.image_config.diff_ids.iter();
        let mut seen = BTreeMap::new();
        let work = FuturesUnordered::new();
        for layer in &image.manifest.layers {
            let kind = layer_kind(layer)?;
            let diff_id = match kind {
                Layer::Nothing => continue,
                Layer::AsItIs => None,
                Layer::Unpacked(_) => diff_ids.next().copied(),
            };
            // One layer may stand there twice, and then has one content.
            match seen.insert(layer.digest, diff_id) {
                Some(earlier) if earlier != diff_id => {
                    return Err(InstallError::WrongDiffId {
                        digest: layer.digest,
                        expected: Box::new(diff_id.unwrap_or(layer.digest)),
                        found: Box::new(earlier.unwrap_or(layer.digest)),
                    });
                }
                Some(_) => continue,
                None => {}
            }
            work.push(async move {
                match kind {
                    Layer::Unpacked(format) => {
                        let order = LayerOrder {
                            digest: layer.digest,
                            size: layer.size,
                            format,
                            diff_id,
                        };
                        self.fetch_layer(job, order).await
                    }
                    _ => {
                        self.fetch_content(job, layer.digest, Some(layer.size))
                            .await
                    }
                }
            });
        }
        work.try_collect().await
    }
}

fn layer_kind(layer: &Descriptor) -> Result<Layer, InstallError> {
    match &layer.media_type {
        MediaType::Layer(format) => Ok(Layer::Unpacked(*format)),
        MediaType::Component(_) => Ok(Layer::AsItIs),
        MediaType::Empty => Ok(Layer::Nothing),
        other => Err(InstallError::LayerType {
            digest: layer.digest,
            media_type: other.clone(),
        }),
    }
}

/// What an item refers to.
fn record(
    manifest_digest: Digest,
    manifest: &Manifest,
    documents: BTreeSet<Digest>,
) -> Result<ItemRecord, InstallError> {
    let mut record = ItemRecord {
        manifest: manifest_digest,
        is_complete: false,
        removed_at: None,
        blobs: documents,
        layers: BTreeSet::new(),
    };
    record.blobs.insert(manifest.config.digest);
    record
        .blobs
        .extend(manifest.item_config.as_ref().map(|config| config.digest));
    for layer in &manifest.layers {
        match layer_kind(layer)? {
            Layer::Unpacked(_) => record.layers.insert(layer.digest),
            Layer::AsItIs => record.blobs.insert(layer.digest),
            Layer::Nothing => false,
        };
    }
    Ok(record)
}

/// Runs something that blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    digest: Digest,
    work: impl FnOnce() -> Result<T, InstallError> + Send + 'static,
) -> Result<T, InstallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| InstallError::Stopped { digest })?
}

impl Inner {
    /// A blob that is a document, and still what it was. They are small, so each is compared whenever it is read: a wrong value
    /// would be believed, and damage would keep an item from starting until the next round of checks.
    pub(crate) fn read_blob(&self, digest: &Digest) -> Result<Vec<u8>, InstallError> {
        let limit = self.settings.documents.document_bytes as u64;
        let known = self.ledger.lock().inventory.blobs.get(digest).copied();
        let digest = *digest;
        match documents::read(&self.folders.blob(&digest), limit) {
            Ok(Some(bytes)) if hash::is_of(&digest, &bytes) => Ok(bytes),
            Ok(None) if known.is_none_or(|known| known > limit) => Err(InstallError::Fetch {
                digest,
                source: FetchBlobError::TooLarge { limit },
            }),
            Err(error) if !look::is_damage(&error.source) => Err(disk(digest)(error)),
            Ok(_) | Err(_) => Err(InstallError::Damaged { digest }),
        }
    }

    pub(crate) fn read_document(&self, digest: &Digest) -> Result<Document, InstallError> {
        let document = Document::read(&self.read_blob(digest)?, &self.settings.documents);
        document.map_err(|source| InstallError::Document {
            digest: *digest,
            source: Box::new(source),
        })
    }

    /// Reads an image's configurations, and compares them with its manifest and the node.
    fn read_image(
        &self,
        manifest_digest: Digest,
        manifest: Manifest,
    ) -> Result<Image, InstallError> {
        let image = self.read_configs(manifest_digest, manifest)?;
        let node = &self.settings.platform;
        match &image.image_config.platform {
            Some(found) if node.fit(found).is_none() => Err(InstallError::WrongPlatform {
                digest: manifest_digest,
                found: Box::new(found.clone()),
                wanted: Box::new(node.clone()),
            }),
            _ => Ok(image),
        }
    }

    /// Reads an image's configurations, and compares them with its manifest.
    fn read_configs(
        &self,
        manifest_digest: Digest,
        manifest: Manifest,
    ) -> Result<Image, InstallError> {
        let limits = &self.settings.documents;
        read_configs(manifest_digest, manifest, limits, &|digest| {
            self.read_blob(digest)
        })
    }

    fn present(&self, digest: Digest, image: Image) -> InstalledImage {
        let layers = &image.manifest.layers;
        let of_kind = |wanted: fn(&MediaType) -> bool| {
            layers.iter().filter(move |layer| wanted(&layer.media_type))
        };
        InstalledImage {
            digest,
            manifest_digest: image.manifest_digest,
            layers: of_kind(|kind| matches!(kind, MediaType::Layer(_)))
                .map(|layer| self.folders.layer(&layer.digest))
                .collect(),
            components: of_kind(|kind| matches!(kind, MediaType::Component(_)))
                .map(|layer| self.folders.blob(&layer.digest))
                .collect(),
            manifest: image.manifest,
            image_config: image.image_config,
            item_config: image.item_config,
        }
    }

    /// A complete item whose parts are all there. A document that turns out to be damaged is not, so that it is got anew.
    pub(crate) fn find(&self, digest: Digest) -> Result<Option<InstalledImage>, InstallError> {
        self.unless_damaged(self.find_recorded(digest))
    }

    /// What was read of an item; nothing, and no longer there, if a document of it is damaged.
    pub(crate) fn unless_damaged<T>(
        &self,
        read: Result<Option<T>, InstallError>,
    ) -> Result<Option<T>, InstallError> {
        match read {
            Err(InstallError::Damaged { digest }) => self.doubt(digest).map(|()| None),
            read => read,
        }
    }

    fn find_recorded(&self, digest: Digest) -> Result<Option<InstalledImage>, InstallError> {
        let record = {
            let state = self.ledger.lock();
            let inventory = &state.inventory;
            let whole = |item: &&ItemRecord| item.is_complete && inventory.has_parts_of(item);
            match inventory.items.get(&digest).filter(whole) {
                Some(item) => item.clone(),
                None => return Ok(None),
            }
        };
        let Document::Manifest(manifest) = self.read_document(&record.manifest)? else {
            return Ok(None);
        };
        let image = self.read_image(record.manifest, *manifest)?;
        Ok(Some(self.present(digest, image)))
    }
}

/// Reads an image's configurations by `read`, and compares them with its manifest.
pub(crate) fn read_configs(
    manifest_digest: Digest,
    manifest: Manifest,
    limits: &muster_item::Limits,
    read: &dyn Fn(&Digest) -> Result<Vec<u8>, InstallError>,
) -> Result<Image, InstallError> {
    let wrong = |digest| {
        move |source| InstallError::Document {
            digest,
            source: Box::new(source),
        }
    };
    let config = manifest.config.digest;
    let image_config = ImageConfig::read(&read(&config)?, limits);
    let image_config = image_config.map_err(wrong(config))?;
    let item_config = match &manifest.item_config {
        Some(item) => ItemConfig::read(&read(&item.digest)?, limits).map_err(wrong(item.digest))?,
        None => ItemConfig::default(),
    };
    let is_unpacked = |layer: &&Descriptor| matches!(layer.media_type, MediaType::Layer(_));
    let layers = manifest.layers.iter().filter(is_unpacked).count();
    let diff_ids = image_config.diff_ids.len();
    if diff_ids > 0 && diff_ids != layers {
        return Err(InstallError::LayerCount {
            digest: manifest_digest,
            layers,
            diff_ids,
        });
    }
    Ok(Image {
        manifest_digest,
        manifest,
        image_config,
        item_config,
    })
}
