//! The handle: items that come, stay and go.

mod inspect;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use muster_api::domain::Digest;
use muster_desired::{ImageSource, Item, Trust};
use muster_image::{
    CheckReport, ImageStore, InstallError, MirrorState, Progress, StoreSettings, UrlClient, Usage,
};
use muster_item::Platform;
use muster_store::Store;
use muster_telemetry::ErrorChain;
use tokio::sync::watch;

pub use self::inspect::InspectItemError;

use crate::cloud::Cloud;
use crate::cloud_source::{CloudSource, Signatures};
use crate::describe::Described;
use crate::error::{
    DescribeItemError, DownloadItemError, MaintainItemsError, OpenItemsError, OpenSourceError,
};
use crate::settings::ItemsSettings;
use crate::source::{self, ItemSource, Nowhere};
use crate::{database, fault};

/// The items of a Unit. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct Items {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: ItemsSettings,
    blobs: ImageStore,
    db: Store,
    /// Items that were whole once, and their indexes: the table, in memory.
    known: Mutex<BTreeMap<Item, Digest>>,
    /// Held while the table is compared with the blobs and changed.
    books: tokio::sync::Mutex<()>,
    cloud: Option<Cloud>,
    client: UrlClient,
}

impl Items {
    /// Opens the folder of items, and takes away what a killed process left unfinished. Without a cloud, its items are refused.
    pub async fn open(
        settings: ItemsSettings,
        db: Store,
        cloud: Option<Cloud>,
    ) -> Result<Self, OpenItemsError> {
        // Which platform this is makes no difference to what is only handed on.
        let mut store = StoreSettings::new(&settings.folder, Platform::of_this_program());
        store.max_bytes = settings.max_bytes;
        store.item_ttl = settings.item_ttl;
        store.parallel = settings.parallel;
        store.tries = settings.tries;
        store.retry_delay = settings.retry_delay;
        let opened = ImageStore::open(store, db.clone()).await;
        let (blobs, report) = opened.map_err(OpenItemsError::Blobs)?;
        if !report.lost.is_empty() {
            let lost = report.lost.len();
            tracing::warn!(
                lost,
                "blobs of items are gone; they are got again when they are needed"
            );
        }
        let known = database::load(&db).await;
        let known = known.map_err(OpenItemsError::Database)?;
        let client = UrlClient::new(settings.http.clone()).map_err(OpenItemsError::Http)?;
        let inner = Inner {
            settings,
            blobs,
            db,
            known: Mutex::new(known),
            books: tokio::sync::Mutex::default(),
            cloud,
            client,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Makes an item whole, and answers with its index when all of it is on disk for good; at once if it is. `trust` says whom
    /// signatures may be from.
    ///
    /// What has come stays when this fails or is dropped, so the next try goes on from there. Several at the same time share what
    /// they have in common.
    pub async fn download(
        &self,
        item: &Item,
        trust: &Trust,
        progress: Option<watch::Sender<Progress>>,
    ) -> Result<Digest, DownloadItemError> {
        let known = self.inner.known_index(item);
        let state = known.map(|index| (index, self.inner.blobs.mirror_state(&index)));
        if let Some((index, MirrorState::Wanted)) = state {
            return Ok(index);
        }
        let source = match (self.inner.open_source(item, Some(trust)).await, state) {
            (Ok(source), _) => source,
            (Err(error), Some((index, MirrorState::Removed))) => {
                tracing::warn!(item = %item.id, version = item.version, error = %ErrorChain(&error),
                    "the source of an item cannot be used; what was kept of it is");
                let blobs = Arc::new(Nowhere);
                ItemSource { blobs, index }
            }
            (Err(source), _) => {
                let (id, version) = name(item);
                return Err(DownloadItemError::Source {
                    id,
                    version,
                    source,
                });
            }
        };
        let index = source.index;
        loop {
            let blobs = Arc::clone(&source.blobs);
            let mirrored = self.inner.blobs.mirror(index, blobs, progress.clone());
            mirrored.await.map_err(|source| content(item, source))?;
            muster_fault::hit(fault::ITEM_WHOLE);
            if self.record(item, index).await? {
                return Ok(index);
            }
            // It was said what is needed while this was whole and not known; now it is known.
        }
    }

    /// Takes note of an item that is whole. `false` if it is not to stay.
    async fn record(&self, item: &Item, index: Digest) -> Result<bool, DownloadItemError> {
        let _turn = self.inner.books.lock().await;
        if self.inner.known_index(item) != Some(index) {
            let saved = database::save(&self.inner.db, item, index).await;
            saved.map_err(|source| {
                let (id, version) = name(item);
                DownloadItemError::Database {
                    id,
                    version,
                    source,
                }
            })?;
            self.inner.known().insert(item.clone(), index);
            muster_fault::hit(fault::ITEM_RECORDED);
        }
        Ok(self.inner.blobs.mirror_state(&index) == MirrorState::Wanted)
    }

    /// Says which items are needed from now on. The time of all others begins to run.
    pub async fn retain(&self, items: &BTreeSet<Item>) -> Result<(), MaintainItemsError> {
        let _turn = self.inner.books.lock().await;
        let needed: BTreeSet<Digest> = {
            let known = self.inner.known();
            let needed = known.iter().filter(|(item, _)| items.contains(*item));
            needed.map(|(_, index)| *index).collect()
        };
        let kept = self.inner.blobs.keep(&needed, SystemTime::now()).await;
        kept.map_err(MaintainItemsError::Blobs)?;
        muster_fault::hit(fault::RETAINED);
        self.forget_gone().await
    }

    /// Removes items whose time is over by then.
    pub async fn collect(&self, now: SystemTime) -> Result<(), MaintainItemsError> {
        let collected = self.inner.blobs.collect(now).await;
        collected.map_err(MaintainItemsError::Blobs)?;
        let _turn = self.inner.books.lock().await;
        self.forget_gone().await
    }

    /// Only with the turn. Items that went, because their time was over or space was short, are looked up again when they are wanted.
    async fn forget_gone(&self) -> Result<(), MaintainItemsError> {
        let there = self.inner.blobs.inventory().items;
        let gone: BTreeSet<Item> = {
            let known = self.inner.known();
            let gone = known
                .iter()
                .filter(|(_, index)| !there.contains_key(*index));
            gone.map(|(item, _)| item.clone()).collect()
        };
        if gone.is_empty() {
            return Ok(());
        }
        let forgotten = database::forget(&self.inner.db, &gone).await;
        forgotten.map_err(MaintainItemsError::Database)?;
        self.inner.known().retain(|item, _| !gone.contains(item));
        muster_fault::hit(fault::FORGOTTEN);
        Ok(())
    }

    /// What an item is, from what is there.
    pub async fn describe(&self, item: &Item) -> Result<Described, DescribeItemError> {
        let absent = || {
            let (id, version) = name(item);
            DescribeItemError::Absent { id, version }
        };
        let index = self.inner.known_index(item).ok_or_else(absent)?;
        match self.inner.blobs.mirrored(index).await {
            Ok(Some(images)) => Ok(Described { index, images }),
            Ok(None) => Err(absent()),
            Err(source) => {
                let (id, version) = name(item);
                Err(DescribeItemError::Documents {
                    id,
                    version,
                    source,
                })
            }
        }
    }

    /// The folder that has `sha256/HEX` in it for each blob that is there.
    pub fn blob_folder(&self) -> PathBuf {
        self.inner.blobs.blob_folder()
    }

    /// How much of the space is taken.
    pub fn usage(&self) -> Usage {
        self.inner.blobs.usage()
    }

    /// For ever: removes what may go, looks for damage, and gets again what was damaged and is needed. To be run as a task of its
    /// own; ends when it is dropped.
    pub async fn maintain(&self) {
        let pace = muster_image::CheckSettings::default().bytes_per_second;
        let mut periods = tokio::time::interval(self.inner.settings.maintenance_period);
        periods.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            periods.tick().await;
            if let Err(error) = self.collect(SystemTime::now()).await {
                tracing::warn!(error = %ErrorChain(&error), "cannot remove items that nobody needs");
            }
            match self.inner.blobs.check(pace).await {
                Ok(report) => self.repair(&report).await,
                Err(error) => tracing::warn!(error = %ErrorChain(&error), "cannot check items"),
            }
        }
    }

    /// Gets damaged items again, the very same content. What fails is tried again with the next check, or when it is downloaded.
    async fn repair(&self, report: &CheckReport) {
        let damaged: Vec<(Item, Digest)> = {
            let known = self.inner.known();
            let damaged = known
                .iter()
                .filter(|(_, index)| report.items.contains(*index));
            damaged
                .map(|(item, index)| (item.clone(), *index))
                .collect()
        };
        for (item, index) in damaged {
            let outcome = match self.inner.open_source(&item, None).await {
                Ok(source) => {
                    let mirrored = self.inner.blobs.mirror(index, source.blobs, None).await;
                    mirrored.map_err(|error| ErrorChain(&error).to_string())
                }
                Err(error) => Err(ErrorChain(&error).to_string()),
            };
            match outcome {
                Ok(_) => tracing::info!(item = %item.id, %index, "repaired a damaged item"),
                Err(error) => {
                    tracing::error!(item = %item.id, %index, error, "cannot repair a damaged item");
                }
            }
        }
    }
}

fn content(item: &Item, source: InstallError) -> DownloadItemError {
    let (id, version) = name(item);
    DownloadItemError::Content {
        id,
        version,
        source,
    }
}

fn name(item: &Item) -> (muster_api::domain::ItemId, String) {
    (item.id.clone(), item.version.clone())
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Item, Digest>> {
        self.known
            .lock()
            .expect("nothing that holds this lock can panic")
    }

    fn known_index(&self, item: &Item) -> Option<Digest> {
        self.known().get(item).copied()
    }

    /// Opens the source of an item. Without `trust` signatures are not looked at: for digests that were verified once.
    async fn open_source(
        &self,
        item: &Item,
        trust: Option<&Trust>,
    ) -> Result<ItemSource, OpenSourceError> {
        match &item.image {
            ImageSource::Cloud { index } => {
                let cloud = self.cloud.clone().ok_or(OpenSourceError::NoCloud)?;
                let signatures = match trust {
                    Some(trust) => {
                        let mut policy = self.settings.signatures.clone();
                        let files = self.settings.revocation_list_files.clone();
                        policy
                            .revocation_lists
                            .extend(source::revocation_lists(files).await?);
                        Signatures::From(trust.clone(), policy)
                    }
                    None => Signatures::Verified,
                };
                let client = self.client.clone();
                let blobs = CloudSource::new(cloud, client, signatures, &self.settings);
                Ok(ItemSource {
                    blobs: Arc::new(blobs),
                    index: *index,
                })
            }
            ImageSource::Layout { path, name, index } => {
                source::layout(path.clone(), name.clone(), *index).await
            }
            ImageSource::Registry {
                reference,
                access,
                index,
            } => source::registry(reference, access.clone(), *index).await,
        }
    }
}
