//! One blob or layer: from its places to its name in the store.
//!
//! The asynchronous side asks places and sends pieces; a thread of its own takes them, and holds everything that must not be given
//! up half way: the turn for the digest, the reserved space, the file. A caller who stops waiting therefore stops the download and
//! nothing else.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{Digest, DigestAlgorithm};
use muster_item::LayerFormat;
use muster_layer::{Compression, Durability, UnpackError};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, mpsc};

use crate::db;
use crate::error::{InstallError, SpaceLimit};
use crate::fetch::{FetchBlobError, Piece, QUEUE, Wanted, fetch};
use crate::folders::{DiskError, OnDisk};
use crate::install::{Job, blocking};
use crate::intake::{Intake, Taken};
use crate::inventory::{LayerRecord, PartialRecord};
use crate::ledger::Reservation;
use crate::progress::Meter;
use crate::seal::{self, Unhurried};
use crate::store::{ImageStore, Inner, unix_seconds};

/// Space that is reserved for a compressed layer's content, in sizes of the layer. What it really takes is counted afterwards,
/// and cannot be more than there is.
const EXPECTED_RATIO: u64 = 3;

/// A layer that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerOrder {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) format: LayerFormat,
    pub(crate) diff_id: Option<Digest>,
}

/// What is made of a blob.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Blob,
    Layer(LayerOrder),
}

/// How a try ended.
enum Outcome {
    Stored,
    /// Everything came, and was something else.
    Wrong(Taken),
    /// The download ended before its end. Why, the download knows.
    Unfinished,
}

/// What a try holds, and gives back when its thread is done.
struct Held {
    _turn: OwnedMutexGuard<()>,
    _permit: OwnedSemaphorePermit,
}

impl ImageStore {
    /// Makes a blob present.
    pub(crate) async fn fetch_blob(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
    ) -> Result<(), InstallError> {
        let turn = self.inner.turns.take(digest).await;
        self.inner.ledger.until_gone(&digest).await;
        if self
            .inner
            .ledger
            .lock()
            .inventory
            .blobs
            .contains_key(&digest)
        {
            return Ok(());
        }
        self.transfer(job, digest, size, Purpose::Blob, turn).await
    }

    /// Makes a layer present.
    pub(crate) async fn fetch_layer(
        &self,
        job: &Job,
        order: LayerOrder,
    ) -> Result<(), InstallError> {
        let turn = self.inner.turns.take(order.digest).await;
        self.inner.ledger.until_gone(&order.digest).await;
        let known = {
            let state = self.inner.ledger.lock();
            state
                .inventory
                .layers
                .get(&order.digest)
                .map(|layer| layer.diff_id)
        };
        match (known, order.diff_id) {
            (Some(found), Some(expected)) if found != expected => Err(InstallError::WrongDiffId {
                digest: order.digest,
                expected: Box::new(expected),
                found: Box::new(found),
            }),
            (Some(_), _) => Ok(()),
            (None, _) => {
                let purpose = Purpose::Layer(order);
                self.transfer(job, order.digest, Some(order.size), purpose, turn)
                    .await
            }
        }
    }

    async fn transfer(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
        purpose: Purpose,
        turn: OwnedMutexGuard<()>,
    ) -> Result<(), InstallError> {
        let permit = Arc::clone(&self.inner.downloads).acquire_owned().await;
        let permit = permit.map_err(|_| InstallError::Stopped { digest })?;
        let mut held = Held {
            _turn: turn,
            _permit: permit,
        };
        let mut suspects = BTreeSet::new();
        let mut tries = 0;
        loop {
            let (outcome, returned, used) = self
                .attempt(job, digest, size, purpose, held, &suspects)
                .await?;
            held = returned;
            let Outcome::Wrong(taken) = outcome else {
                return Ok(());
            };
            tries += 1;
            job.meter.took_back(taken.bytes);
            // After an earlier try's bytes were taken again, the fault may have been theirs.
            let is_new = !used.is_subset(&suspects);
            suspects.extend(used.iter().cloned());
            if tries >= self.inner.settings.tries || (!is_new && !used.is_empty()) {
                let source = FetchBlobError::WrongContent {
                    found: Box::new(taken.digest),
                    bytes: taken.bytes,
                    places: used,
                };
                return Err(InstallError::Fetch { digest, source });
            }
            tracing::warn!(%digest, found = %taken.digest, places = ?used, "a blob came wrong");
        }
    }

    /// One try: a thread takes what the places give.
    async fn attempt(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
        purpose: Purpose,
        held: Held,
        suspects: &BTreeSet<String>,
    ) -> Result<(Outcome, Held, BTreeSet<String>), InstallError> {
        let limit = self.inner.settings.documents.document_bytes as u64;
        let wanted = Wanted {
            digest,
            size,
            limit,
            tries: self.inner.settings.tries.max(1),
            delay: self.inner.settings.retry_delay,
        };
        let store = self.clone();
        let there = move || store.inner.part_of(&digest, size);
        let there = blocking(digest, there).await?;
        let store = self.clone();
        let bytes = size.unwrap_or(limit).saturating_sub(there);
        let reserve = move || store.inner.reserve(digest, bytes, purpose);
        let reservation = blocking(digest, reserve).await?;

        let (sender, receiver) = mpsc::channel(QUEUE);
        let task = Task {
            inner: Arc::clone(&self.inner),
            meter: Arc::clone(&job.meter),
            digest,
            purpose,
            there,
        };
        let taking = blocking(digest, move || {
            let outcome = task.run(receiver);
            drop(reservation);
            Ok((outcome, held))
        });
        let fetching = fetch(job.source.as_ref(), &wanted, there, suspects, sender);
        let (fetched, taken) = tokio::join!(fetching, taking);
        let (outcome, held) = taken?;
        match (outcome?, fetched) {
            (Outcome::Unfinished, Err(source)) => Err(InstallError::Fetch { digest, source }),
            (Outcome::Unfinished, Ok(_)) => Err(InstallError::Stopped { digest }),
            (outcome, fetched) => Ok((outcome, held, fetched.unwrap_or_default())),
        }
    }
}

impl Inner {
    /// How much of a blob is there from earlier: all of it if only its layer is missing. Without a known size nothing is
    /// believed.
    fn part_of(&self, digest: &Digest, size: Option<u64>) -> Result<u64, InstallError> {
        if let Some(bytes) = self.ledger.lock().inventory.blobs.get(digest) {
            return Ok(*bytes);
        }
        let path = self.folders.partial(digest);
        match (fs::metadata(&path), size) {
            (Ok(found), Some(size)) if found.len() <= size => Ok(found.len()),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            (found, _) => {
                found
                    .and_then(|_| fs::remove_file(&path))
                    .on_disk("remove", &path)
                    .map_err(disk(*digest))?;
                self.ledger.lock().inventory.partials.remove(digest);
                Ok(0)
            }
        }
    }

    /// Promises space, after removing what nobody wants if that is needed.
    fn reserve(
        &self,
        digest: Digest,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<Reservation, InstallError> {
        let content = match purpose {
            Purpose::Blob => 0,
            Purpose::Layer(order) => match order.format {
                LayerFormat::Tar => order.size,
                LayerFormat::TarGzip | LayerFormat::TarZstd => {
                    order.size.saturating_mul(EXPECTED_RATIO)
                }
            },
        };
        let needed = bytes.saturating_add(content);
        let limit = self.settings.max_bytes.unwrap_or(u64::MAX);
        let refuse = |missing, limit| InstallError::NoSpace {
            digest,
            needed,
            missing,
            limit,
        };
        for last in [false, true] {
            let free = self.folders.free_bytes().map_err(disk(digest))?;
            let promised = self.ledger.lock().reserved;
            let short = needed.saturating_add(promised).saturating_sub(free);
            let missing = match (short, Reservation::take(&self.ledger, needed, limit)) {
                (0, Ok(reservation)) => return Ok(reservation),
                (short, Ok(_)) if last => return Err(refuse(short, SpaceLimit::FileSystem(free))),
                (_, Err(missing)) if last => {
                    return Err(refuse(missing, SpaceLimit::Setting(limit)));
                }
                (short, Ok(_)) => short,
                (short, Err(missing)) => short.max(missing),
            };
            if let Err(error) = self.collect(SystemTime::now(), missing) {
                tracing::warn!(%error, "cannot make room for images");
            }
        }
        Err(refuse(needed, SpaceLimit::Setting(limit)))
    }
}

fn disk(digest: Digest) -> impl FnOnce(DiskError) -> InstallError {
    move |source| InstallError::Disk { digest, source }
}

/// The work of a try's thread.
struct Task {
    inner: Arc<Inner>,
    meter: Arc<Meter>,
    digest: Digest,
    purpose: Purpose,
    there: u64,
}

impl Task {
    fn run(self, coming: mpsc::Receiver<Piece>) -> Result<Outcome, InstallError> {
        let outcome = match self.purpose {
            Purpose::Blob => self.take_blob(coming),
            Purpose::Layer(order) => self.take_layer(&order, coming),
        };
        self.account_for_part();
        outcome
    }

    /// Whatever became of it, the part that is on disk now counts.
    fn account_for_part(&self) {
        let found = fs::metadata(self.inner.folders.partial(&self.digest));
        let partials = &mut self.inner.ledger.lock().inventory.partials;
        match found {
            Ok(found) => {
                let partial = PartialRecord {
                    bytes: found.len(),
                    since: unix_seconds(SystemTime::now()),
                };
                partials.insert(self.digest, partial);
            }
            Err(_) => {
                partials.remove(&self.digest);
            }
        }
    }

    fn take_blob(&self, coming: mpsc::Receiver<Piece>) -> Result<Outcome, InstallError> {
        let taken = match self.intake(coming)?.finish() {
            Ok(taken) => taken,
            Err(error) => return self.stopped(error),
        };
        if taken.digest != self.digest {
            return self.discard_wrong(taken);
        }
        self.establish_blob(&taken)?;
        Ok(Outcome::Stored)
    }

    fn take_layer(
        &self,
        order: &LayerOrder,
        coming: mpsc::Receiver<Piece>,
    ) -> Result<Outcome, InstallError> {
        let is_blob = self
            .inner
            .ledger
            .lock()
            .inventory
            .blobs
            .contains_key(&self.digest);
        let mut intake = match is_blob {
            true => self.whole_blob()?,
            false => self.intake(coming)?,
        };
        let unpacked = self.unpack(order, &mut intake);
        let taken = match intake.finish() {
            Ok(taken) => taken,
            Err(error) => {
                self.drop_tree()?;
                return self.stopped(error);
            }
        };
        // Only of the right bytes can be said that they make no layer.
        if taken.digest != self.digest {
            self.drop_tree()?;
            return match is_blob {
                true => self.disown_blob(taken),
                false => self.discard_wrong(taken),
            };
        }
        let report = match unpacked {
            Ok(report) => report,
            Err(error) => {
                self.drop_tree()?;
                return Err(error);
            }
        };
        let found = Digest::from_sha256(report.diff_id);
        // What is named by another algorithm was not verified on the way, and is refused.
        if let Some(expected) = order.diff_id.filter(|expected| *expected != found) {
            self.drop_tree()?;
            let digest = self.digest;
            return Err(InstallError::WrongDiffId {
                digest,
                expected: Box::new(expected),
                found: Box::new(found),
            });
        }
        self.establish_layer(found)?;
        if is_blob {
            return Ok(Outcome::Stored);
        }
        if self.inner.settings.keep_layer_blobs {
            self.establish_blob(&taken)?;
        } else {
            let path = self.inner.folders.partial(&self.digest);
            fs::remove_file(&path)
                .on_disk("remove", &path)
                .map_err(disk(self.digest))?;
        }
        Ok(Outcome::Stored)
    }

    fn intake(&self, coming: mpsc::Receiver<Piece>) -> Result<Intake, InstallError> {
        let path = self.inner.folders.partial(&self.digest);
        let meter = Arc::clone(&self.meter);
        Intake::resume(&path, self.there, &self.digest, coming, meter)
            .on_disk("write", &path)
            .map_err(disk(self.digest))
    }

    fn whole_blob(&self) -> Result<Intake, InstallError> {
        let path = self.inner.folders.blob(&self.digest);
        Intake::whole(&path, &self.digest, Arc::clone(&self.meter))
            .on_disk("read", &path)
            .map_err(disk(self.digest))
    }

    /// An intake fails because the download ended, or because of the disk.
    fn stopped(&self, error: io::Error) -> Result<Outcome, InstallError> {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return Ok(Outcome::Unfinished);
        }
        let path = self.inner.folders.partial(&self.digest);
        Err(error)
            .on_disk("write", &path)
            .map_err(disk(self.digest))
    }

    fn discard_wrong(&self, taken: Taken) -> Result<Outcome, InstallError> {
        let path = self.inner.folders.partial(&self.digest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed
                .on_disk("remove", &path)
                .map_err(disk(self.digest))?,
        }
        Ok(Outcome::Wrong(taken))
    }

    /// The blob in the store is damaged: it goes, and is downloaded.
    fn disown_blob(&self, taken: Taken) -> Result<Outcome, InstallError> {
        let digest = self.digest;
        self.inner.ledger.lock().inventory.blobs.remove(&digest);
        self.inner
            .db
            .write(move |db| db::forget_blob(db, &digest))
            .wait()
            .map_err(|source| InstallError::Database { digest, source })?;
        let path = self.inner.folders.blob(&digest);
        self.inner.folders.discard(&path).map_err(disk(digest))?;
        Ok(Outcome::Wrong(taken))
    }

    fn unpack(
        &self,
        order: &LayerOrder,
        intake: &mut Intake,
    ) -> Result<muster_layer::Report, InstallError> {
        let path = self.inner.folders.unpacking(&self.digest);
        self.drop_tree()?;
        let folder = DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .and_then(|()| File::open(&path))
            .on_disk("make", &path)
            .map_err(disk(self.digest))?;
        muster_fault::hit(crate::fault::LAYER_STARTED);
        let compression = match order.format {
            LayerFormat::Tar => Compression::None,
            LayerFormat::TarGzip => Compression::Gzip,
            LayerFormat::TarZstd => Compression::Zstd,
        };
        let options = self.unpack_options(order)?;
        muster_layer::unpack(intake, compression, folder.as_fd(), &options).map_err(
            |source| match (source, order.diff_id) {
                (UnpackError::WrongDiffId { actual, .. }, Some(expected)) => {
                    InstallError::WrongDiffId {
                        digest: self.digest,
                        expected: Box::new(expected),
                        found: Box::new(Digest::from_sha256(actual)),
                    }
                }
                (source, _) => InstallError::Unpack {
                    digest: self.digest,
                    source: Box::new(source),
                },
            },
        )
    }

    fn unpack_options(&self, order: &LayerOrder) -> Result<muster_layer::Options, InstallError> {
        let mut options = self.inner.settings.unpack.clone();
        // The bytes are hashed on their way in already.
        options.digest = None;
        options.diff_id = match &order.diff_id {
            Some(diff_id) if diff_id.algorithm() == DigestAlgorithm::Sha256 => {
                diff_id.as_bytes().try_into().ok()
            }
            _ => None,
        };
        options.durability = match self.inner.folders.leaves_layers_unflushed() {
            true => Durability::None,
            false => Durability::SyncFs,
        };
        let free = self.inner.folders.free_bytes().map_err(disk(self.digest))?;
        options.limits.total_bytes = options.limits.total_bytes.min(free);
        if let Some(max) = self.inner.settings.max_bytes {
            let used = self.inner.ledger.lock().inventory.used_bytes();
            let left = max.saturating_sub(used);
            options.limits.total_bytes = options.limits.total_bytes.min(left);
        }
        Ok(options)
    }

    fn drop_tree(&self) -> Result<(), InstallError> {
        let path = self.inner.folders.unpacking(&self.digest);
        self.inner.folders.discard(&path).map_err(disk(self.digest))
    }

    fn establish_blob(&self, taken: &Taken) -> Result<(), InstallError> {
        let (digest, bytes) = (self.digest, taken.bytes);
        self.inner
            .folders
            .establish_blob(&digest, &taken.file)
            .map_err(disk(digest))?;
        self.inner
            .db
            .write(move |db| db::put_blob(db, &digest, bytes))
            .wait()
            .map_err(|source| InstallError::Database { digest, source })?;
        self.inner
            .ledger
            .lock()
            .inventory
            .blobs
            .insert(digest, bytes);
        muster_fault::hit(crate::fault::BLOB_RECORDED);
        Ok(())
    }

    fn establish_layer(&self, diff_id: Digest) -> Result<(), InstallError> {
        let digest = self.digest;
        let path = self.inner.folders.unpacking(&digest);
        let sealed = seal::seal(&path, &mut Unhurried)
            .on_disk("read", &path)
            .map_err(disk(digest))?;
        self.inner
            .folders
            .establish_layer(&digest)
            .map_err(disk(digest))?;
        let layer = LayerRecord {
            diff_id,
            bytes: sealed.bytes,
            seal: sealed.seal,
        };
        let row = layer.clone();
        self.inner
            .db
            .write(move |db| db::put_layer(db, &digest, &row))
            .wait()
            .map_err(|source| InstallError::Database { digest, source })?;
        self.inner
            .ledger
            .lock()
            .inventory
            .layers
            .insert(digest, layer);
        muster_fault::hit(crate::fault::LAYER_RECORDED);
        Ok(())
    }
}
