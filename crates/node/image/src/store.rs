//! The store: opening it, and what is kept and what goes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_api::domain::Digest;
use muster_item::{ImageConfig, ItemConfig, Manifest};
use muster_store::Store;
use rustix::fs::FlockOperation;
use tokio::sync::Semaphore;

use crate::db;
use crate::error::{InstallError, MaintainError, OpenImagesError};
use crate::folders::{Folders, OnDisk};
use crate::inventory::{GcPlan, GcRules, Inventory, ItemRecord, gc_plan};
use crate::ledger::{Going, Ledger, Pins, Turns};
use crate::open::{OpenReport, reconcile};
use crate::settings::StoreSettings;

/// Images of a node: blobs by digest, layers unpacked, items that keep them. Clones are handles to the same store.
#[derive(Clone)]
pub struct ImageStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: StoreSettings,
    pub(crate) folders: Folders,
    pub(crate) db: Store,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) turns: Turns,
    pub(crate) downloads: Arc<Semaphore>,
    /// Held while it is noted what is wanted, so that what is noted last was said last.
    keeping: tokio::sync::Mutex<()>,
    /// Holds the folder against other processes.
    _lock: File,
}

/// An installed item.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledImage {
    /// What it was asked for with: its manifest or an index.
    pub digest: Digest,
    /// Its manifest.
    pub manifest_digest: Digest,
    /// Its manifest.
    pub manifest: Manifest,
    /// How it is run.
    pub image_config: ImageConfig,
    /// What its provider wants around it.
    pub item_config: ItemConfig,
    /// Its unpacked layers, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Images of a component, as they came.
    pub components: Vec<PathBuf>,
}

/// How much of the space is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// By blobs, layers, parts and what is in quarantine.
    pub used_bytes: u64,
    /// By downloads that run.
    pub reserved_bytes: u64,
    /// The setting.
    pub max_bytes: Option<u64>,
}

impl ImageStore {
    /// Opens a store, and takes away what a killed process left unfinished. `db` must have been opened with
    /// [`SCHEMA`](crate::SCHEMA).
    pub async fn open(
        settings: StoreSettings,
        db: Store,
    ) -> Result<(Self, OpenReport), OpenImagesError> {
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(settings, db));
        opened.await.map_err(|_| OpenImagesError::Stopped)?
    }

    fn open_blocking(
        settings: StoreSettings,
        db: Store,
    ) -> Result<(Self, OpenReport), OpenImagesError> {
        let folders =
            Folders::create(&settings.folder, settings.weakness).map_err(OpenImagesError::Disk)?;
        let lock = File::open(folders.root())
            .on_disk("open", folders.root())
            .map_err(OpenImagesError::Disk)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| OpenImagesError::InUse(settings.folder.clone()))?;
        let (inventory, report) = reconcile(&folders, &db)?;
        let inner = Inner {
            downloads: Arc::new(Semaphore::new(settings.parallel.max(1))),
            settings,
            folders,
            db,
            ledger: Arc::new(Ledger::new(inventory)),
            turns: Turns::default(),
            keeping: tokio::sync::Mutex::default(),
            _lock: lock,
        };
        let inner = Arc::new(inner);
        Ok((Self { inner }, report))
    }

    /// What the store has.
    pub fn inventory(&self) -> Inventory {
        self.inner.ledger.lock().inventory.clone()
    }

    /// How much of the space is taken.
    pub fn usage(&self) -> Usage {
        let state = self.inner.ledger.lock();
        Usage {
            used_bytes: state.inventory.used_bytes(),
            reserved_bytes: state.reserved,
            max_bytes: self.inner.settings.max_bytes,
        }
    }

    /// Says which items are wanted: running, to be run, or needed to roll back. The time of all others begins to run, and stops
    /// for those that are wanted again. Until this is called, everything is wanted. Of several calls at a time the last counts.
    pub async fn keep(
        &self,
        wanted: &BTreeSet<Digest>,
        now: SystemTime,
    ) -> Result<(), MaintainError> {
        let now = unix_seconds(now);
        let _in_turn = self.inner.keeping.lock().await;
        let changes: Vec<(Digest, Option<u64>)> = {
            let state = self.inner.ledger.lock();
            let items = state.inventory.items.iter();
            let change = |(digest, item): (&Digest, &crate::ItemRecord)| {
                let is_wanted = wanted.contains(digest);
                (is_wanted == item.removed_at.is_some())
                    .then_some((*digest, (!is_wanted).then_some(now)))
            };
            items.filter_map(change).collect()
        };
        if changes.is_empty() {
            return Ok(());
        }
        let rows = changes.clone();
        let write = move |db: &_| {
            rows.iter()
                .try_for_each(|(digest, removed_at)| db::set_removed(db, digest, *removed_at))
        };
        self.inner
            .db
            .write(write)
            .await
            .map_err(MaintainError::Database)?;
        let mut state = self.inner.ledger.lock();
        for (digest, removed_at) in changes {
            if let Some(item) = state.inventory.items.get_mut(&digest) {
                item.removed_at = removed_at;
            }
        }
        Ok(())
    }

    /// An item that is complete and whole, as [`Self::installed`] finds it, and wanted from now on: it does not go for what is
    /// installed after it.
    pub async fn want(&self, digest: Digest) -> Result<Option<InstalledImage>, InstallError> {
        let pins = Pins::new(&self.inner.ledger);
        // Before the look, so that what is found stays.
        pins.add(digest);
        let _in_turn = self.inner.keeping.lock().await;
        let found = self.installed(digest).await?;
        let known = self
            .inner
            .ledger
            .lock()
            .inventory
            .items
            .get(&digest)
            .cloned();
        if let (Some(_), Some(known)) = (&found, known) {
            let removed_at = None;
            self.record_item(
                digest,
                ItemRecord {
                    removed_at,
                    ..known
                },
            )
            .await?;
        }
        Ok(found)
    }

    /// Removes what nobody wants and whose time is over. Answers with what went.
    pub async fn collect(&self, now: SystemTime) -> Result<GcPlan, MaintainError> {
        let store = self.clone();
        let collected = tokio::task::spawn_blocking(move || store.inner.collect(now, 0));
        collected.await.map_err(|_| MaintainError::Stopped)?
    }

    /// An item that is complete and whole, without asking anybody: what a node starts with when it is offline.
    pub async fn installed(&self, digest: Digest) -> Result<Option<InstalledImage>, InstallError> {
        let store = self.clone();
        let found = tokio::task::spawn_blocking(move || store.inner.find(digest));
        found.await.map_err(|_| InstallError::Stopped { digest })?
    }
}

impl Inner {
    /// Plans under the lock, forgets, then removes: what is killed in between leaves files that nothing refers to.
    pub(crate) fn collect(&self, now: SystemTime, need: u64) -> Result<GcPlan, MaintainError> {
        let rules = GcRules {
            now: unix_seconds(now),
            item_ttl: self.settings.item_ttl.as_secs(),
            partial_ttl: self.settings.partial_ttl.as_secs(),
            need,
        };
        let (plan, _going) = {
            let mut state = self.ledger.lock();
            let plan = gc_plan(&state.inventory, &rules);
            // From here on nobody believes in it, so nobody begins to use it.
            let inventory = &mut state.inventory;
            inventory
                .items
                .retain(|digest, _| !plan.items.contains(digest));
            inventory
                .blobs
                .retain(|digest, _| !plan.blobs.contains(digest));
            inventory
                .layers
                .retain(|digest, _| !plan.layers.contains(digest));
            inventory
                .partials
                .retain(|digest, _| !plan.partials.contains(digest));
            inventory
                .quarantined
                .retain(|digest, _| !plan.quarantined.contains(digest));
            let sets = [
                &plan.items,
                &plan.blobs,
                &plan.layers,
                &plan.partials,
                &plan.quarantined,
            ];
            let digests: BTreeSet<Digest> = sets.into_iter().flatten().copied().collect();
            let going = Going::enter(&self.ledger, &mut state, digests);
            (plan, going)
        };
        if plan.is_empty() {
            return Ok(plan);
        }
        let forgotten = plan.clone();
        self.db
            .write(move |db| db::forget(db, &forgotten))
            .wait()
            .map_err(MaintainError::Database)?;
        muster_fault::hit(crate::fault::REMOVAL_RECORDED);
        let blobs = plan.blobs.iter().map(|digest| self.folders.blob(digest));
        let layers = plan.layers.iter().map(|digest| self.folders.layer(digest));
        let partials = plan
            .partials
            .iter()
            .map(|digest| self.folders.partial(digest));
        let damaged = plan
            .quarantined
            .iter()
            .map(|digest| self.folders.quarantine(digest));
        for path in blobs.chain(layers).chain(partials).chain(damaged) {
            self.folders.discard(&path).map_err(MaintainError::Disk)?;
        }
        tracing::info!(
            items = plan.items.len(),
            blobs = plan.blobs.len(),
            layers = plan.layers.len(),
            bytes = plan.freed,
            "removed images that nobody wants"
        );
        Ok(plan)
    }
}

impl fmt::Debug for ImageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageStore")
            .field("folder", &self.inner.settings.folder)
            .finish_non_exhaustive()
    }
}

/// A clock before 1970 is one that was never set.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
