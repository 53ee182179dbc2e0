//! Mirroring an item: all that its digest leads to, for all platforms, as blobs that can be handed on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use muster_api::domain::Digest;
use muster_item::{Descriptor, Document, ImageConfig, ItemConfig, Manifest, Platform};
use tokio::sync::watch;

use crate::error::InstallError;
use crate::install::{Job, blocking, read_configs};
use crate::inventory::ItemRecord;
use crate::ledger::Pins;
use crate::progress::{Meter, Progress};
use crate::source::BlobSource;
use crate::store::{ImageStore, Inner};

/// Documents and blobs of one item: more is no item but an attack.
const MAX_BLOBS: usize = 10_000;
/// Documents of one item.
const MAX_DOCUMENTS: usize = 1000;

/// One image of a mirrored item.
#[derive(Debug, Clone, PartialEq)]
pub struct MirroredImage {
    /// Its manifest.
    pub manifest_digest: Digest,
    /// What it is for, as the index says, or else the image itself.
    pub platform: Option<Platform>,
    /// Its manifest.
    pub manifest: Manifest,
    /// How it is run.
    pub image_config: ImageConfig,
    /// What its provider wants around it.
    pub item_config: ItemConfig,
}

/// Whether a mirrored item is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorState {
    /// It is not, or not all of it.
    Absent,
    /// It is complete and whole, and may go when its time is over or space is short.
    Removed,
    /// It is complete and whole, and stays.
    Wanted,
}

/// What an item refers to, as far as its documents have been read.
#[derive(Debug)]
pub(crate) struct Content {
    digest: Digest,
    /// Documents to be read.
    open: VecDeque<Digest>,
    documents: usize,
    /// Everything that is known of, with sizes where a descriptor said one.
    blobs: BTreeMap<Digest, Option<u64>>,
    /// Manifests in the order of their indexes, and what these say that they are for.
    manifests: Vec<(Digest, Option<Platform>, Manifest)>,
    platforms: BTreeMap<Digest, Platform>,
}

impl Content {
    pub(crate) fn of(digest: Digest) -> Self {
        Self {
            digest,
            open: VecDeque::from([digest]),
            documents: 1,
            blobs: BTreeMap::from([(digest, None)]),
            manifests: Vec::new(),
            platforms: BTreeMap::new(),
        }
    }

    /// The next document to be read, with its size where one is known.
    pub(crate) fn next_document(&mut self) -> Option<(Digest, Option<u64>)> {
        let next = self.open.pop_front()?;
        Some((next, self.blobs.get(&next).copied().flatten()))
    }

    /// Configurations of all manifests that were read, with their sizes.
    pub(crate) fn configs(&self) -> Vec<(Digest, u64)> {
        let manifests = self.manifests.iter();
        let configs = manifests
            .flat_map(|(_, _, manifest)| [Some(&manifest.config), manifest.item_config.as_ref()]);
        configs.flatten().map(|it| (it.digest, it.size)).collect()
    }

    /// Takes note of a document.
    pub(crate) fn take(&mut self, digest: Digest, document: Document) -> Result<(), InstallError> {
        match document {
            Document::Index(index) => {
                for entry in index.manifests {
                    let blob = &entry.descriptor;
                    // What no node can choose need not be there, and may be no image.
                    if !entry.is_offered() {
                        continue;
                    }
                    if self.refer(blob)? {
                        self.open.push_back(blob.digest);
                        self.documents += 1;
                        self.platforms
                            .extend(entry.platform.map(|platform| (blob.digest, platform)));
                    }
                }
            }
            Document::Manifest(manifest) => {
                for blob in manifest.blobs() {
                    self.refer(blob)?;
                }
                let platform = self.platforms.remove(&digest);
                self.manifests.push((digest, platform, *manifest));
            }
        }
        match self.documents > MAX_DOCUMENTS {
            true => Err(self.too_much(MAX_DOCUMENTS)),
            false => Ok(()),
        }
    }

    /// Whether the blob is new.
    fn refer(&mut self, blob: &Descriptor) -> Result<bool, InstallError> {
        if self.blobs.contains_key(&blob.digest) {
            return Ok(false);
        }
        if self.blobs.len() >= MAX_BLOBS {
            return Err(self.too_much(MAX_BLOBS));
        }
        self.blobs.insert(blob.digest, Some(blob.size));
        Ok(true)
    }

    fn too_much(&self, limit: usize) -> InstallError {
        let digest = self.digest;
        InstallError::TooMuch { digest, limit }
    }

    fn record(&self, is_complete: bool) -> ItemRecord {
        ItemRecord {
            manifest: self.digest,
            is_complete,
            removed_at: None,
            blobs: self.blobs.keys().copied().collect(),
            layers: BTreeSet::new(),
        }
    }
}

impl ImageStore {
    /// Gets everything that a digest leads to and that is not there yet, for all platforms, as blobs, and returns when all of it
    /// is on disk for good and its documents make sense.
    ///
    /// What has come stays when this fails or is dropped, so the next try goes on from there. Kept and collected like an
    /// installed item.
    pub async fn mirror(
        &self,
        digest: Digest,
        source: Arc<dyn BlobSource>,
        progress: Option<watch::Sender<Progress>>,
    ) -> Result<Vec<MirroredImage>, InstallError> {
        let job = Job {
            source,
            meter: Arc::new(Meter::new(progress)),
            pins: Pins::new(&self.inner.ledger),
        };
        let mut content = Content::of(digest);
        while let Some((next, size)) = content.next_document() {
            job.pins.add(next);
            self.fetch_document(&job, next, size).await?;
            let store = self.clone();
            let document = blocking(next, move || store.inner.read_document(&next)).await?;
            content.take(next, document)?;
        }
        for (config, size) in content.configs() {
            self.check_claim(config, Some(size))?;
        }
        let mut record = content.record(false);
        self.pin(&job, &record);
        // What was complete stays so: a repair that fails leaves the item known for what it is.
        record.is_complete = self.is_complete(&digest, &record);
        self.record_item(digest, record.clone()).await?;
        muster_fault::hit(crate::fault::ITEM_BEGUN);

        job.meter.expect_more(self.missing(&content.blobs));
        let fetches = FuturesUnordered::new();
        for (blob, size) in &content.blobs {
            fetches.push(self.fetch_content(&job, *blob, *size));
        }
        fetches.try_collect::<()>().await?;
        for (config, size) in content.configs() {
            self.fetch_document(&job, config, Some(size)).await?;
        }
        job.meter.report();
        muster_fault::hit(crate::fault::ITEM_FETCHED);

        let store = self.clone();
        let images = blocking(digest, move || store.inner.images_of(content)).await?;
        record.is_complete = true;
        self.record_item(digest, record).await?;
        muster_fault::hit(crate::fault::ITEM_COMPLETE);
        Ok(images)
    }

    /// A mirrored item that is complete and whole, without asking anybody. A document that turns out to be damaged is not there.
    pub async fn mirrored(
        &self,
        digest: Digest,
    ) -> Result<Option<Vec<MirroredImage>>, InstallError> {
        if self.mirror_state(&digest) == MirrorState::Absent {
            return Ok(None);
        }
        let store = self.clone();
        let read = move || {
            let mut content = Content::of(digest);
            while let Some((next, _)) = content.next_document() {
                content.take(next, store.inner.read_document(&next)?)?;
            }
            store.inner.images_of(content).map(Some)
        };
        let inner = Arc::clone(&self.inner);
        blocking(digest, move || inner.unless_damaged(read())).await
    }

    /// Whether a mirrored item is there.
    pub fn mirror_state(&self, digest: &Digest) -> MirrorState {
        let state = self.inner.ledger.lock();
        let inventory = &state.inventory;
        match inventory.items.get(digest) {
            Some(item) if !item.is_complete || !item.layers.is_empty() => MirrorState::Absent,
            Some(item) if !inventory.has_parts_of(item) => MirrorState::Absent,
            Some(item) if item.removed_at.is_some() => MirrorState::Removed,
            Some(_) => MirrorState::Wanted,
            None => MirrorState::Absent,
        }
    }

    /// The folder that has `ALGORITHM/HEX` in it for each blob that is there.
    pub fn blob_folder(&self) -> PathBuf {
        self.inner.folders.root().join("blobs")
    }

    fn missing(&self, blobs: &BTreeMap<Digest, Option<u64>>) -> u64 {
        let state = self.inner.ledger.lock();
        let missing = blobs
            .iter()
            .filter(|(digest, _)| !state.inventory.blobs.contains_key(digest));
        missing
            .filter_map(|(_, size)| *size)
            .fold(0, u64::saturating_add)
    }
}

impl Inner {
    fn images_of(&self, content: Content) -> Result<Vec<MirroredImage>, InstallError> {
        images_of(content, &self.settings.documents, |digest| {
            self.read_blob(digest)
        })
    }
}

/// The images that documents lead to; configurations come by `read`.
pub(crate) fn images_of(
    content: Content,
    limits: &muster_item::Limits,
    read: impl Fn(&Digest) -> Result<Vec<u8>, InstallError>,
) -> Result<Vec<MirroredImage>, InstallError> {
    if content.manifests.is_empty() {
        let digest = content.digest;
        return Err(InstallError::NoImage { digest });
    }
    let manifests = content.manifests.into_iter();
    let image = |(digest, platform, manifest): (_, Option<Platform>, _)| {
        let image = read_configs(digest, manifest, limits, &read)?;
        Ok(MirroredImage {
            manifest_digest: digest,
            platform: platform.or_else(|| image.image_config.platform.clone()),
            manifest: image.manifest,
            image_config: image.image_config,
            item_config: image.item_config,
        })
    };
    manifests.map(image).collect()
}

#[cfg(test)]
mod tests;
