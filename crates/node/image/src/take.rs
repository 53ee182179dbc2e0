//! The blocking half of a transfer: a thread takes what comes, verifies it, and gives it its name.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{Digest, DigestAlgorithm};
use muster_item::LayerFormat;
use muster_layer::{Budget, Compression, Durability, UnpackError};
use tokio::sync::mpsc;

use crate::db;
use crate::error::{InstallError, SpaceLimit};
use crate::fetch::Piece;
use crate::folders::{DiskError, Free, OnDisk};
use crate::imprint;
use crate::intake::{Intake, Taken};
use crate::inventory::{LayerRecord, PartialRecord};
use crate::ledger::Reservation;
use crate::progress::Meter;
use crate::seal::{self, Unhurried};
use crate::store::{Inner, unix_seconds};

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
pub(crate) enum Purpose {
    /// A blob that is read here.
    Document,
    /// A blob that is kept as it is.
    Blob,
    Layer(LayerOrder),
}

/// How a try ended.
pub(crate) enum Outcome {
    Stored,
    /// Everything came, and was something else.
    Wrong(Taken),
    /// The download ended before its end. Why, the download knows.
    Unfinished,
}

pub(crate) fn disk(digest: Digest) -> impl FnOnce(DiskError) -> InstallError {
    move |source| InstallError::Disk { digest, source }
}

/// The work of a try's thread.
pub(crate) struct Task {
    pub(crate) inner: Arc<Inner>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) digest: Digest,
    pub(crate) purpose: Purpose,
    pub(crate) there: u64,
    /// Space for what comes.
    pub(crate) space: Arc<Reservation>,
    /// Space for what is made of it.
    pub(crate) content: Arc<Reservation>,
}

/// What of a layer is uncompressed and not written yet, at most.
const UNDER_WAY: u64 = 2 << 20;

/// What a layer may take while others take theirs.
struct Room {
    inner: Arc<Inner>,
    content: Arc<Reservation>,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl Budget for Room {
    /// What all layers together have written is gone from what is free, so of this one only what is reserved has to know of it.
    fn covers(&self, bytes: u64) -> bool {
        let limit = self.inner.settings.max_bytes;
        let is_within = limit.is_none_or(|limit| self.content.extend_to(bytes, limit).is_ok());
        self.content.wrote(bytes.saturating_sub(UNDER_WAY));
        let is_left = |free: Free| {
            let under_way = UNDER_WAY.saturating_mul(self.inner.settings.parallel as u64);
            free.bytes > under_way && free.files > 0
        };
        // Where the file system cannot be asked, writing to it will tell.
        is_within && self.inner.folders.free().map_or(true, is_left)
    }
}

impl Task {
    pub(crate) fn run(self, coming: mpsc::Receiver<Piece>) -> Result<Outcome, InstallError> {
        let outcome = match self.purpose {
            Purpose::Document | Purpose::Blob => self.take_blob(coming),
            Purpose::Layer(order) => self.take_layer(&order, coming),
        };
        self.account_for_part();
        outcome
    }

    /// Whatever became of it, the part that is on disk now counts.
    fn account_for_part(&self) {
        let found = fs::metadata(self.inner.folders.partial(&self.digest));
        let mut state = self.inner.ledger.lock();
        self.space.give_back(&mut state);
        let partials = &mut state.inventory.partials;
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
        if report.undescribed_folders > 0 {
            // Whether layers below describe them depends on the image, and this layer may be in several.
            tracing::warn!(
                layer = %self.digest,
                folders = report.undescribed_folders,
                "a layer has folders without an entry: they are root's, with mode 0755, whatever layers below say of them"
            );
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
        let intake = Intake::resume(&path, self.there, &self.digest, coming, meter)
            .on_disk("write", &path)
            .map_err(disk(self.digest))?;
        Ok(intake.within(Arc::clone(&self.space)))
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
        // It asks what is free as the layer comes: sizes of files say nothing about that, for they count holes.
        options.budget = Some(Arc::new(Room {
            inner: Arc::clone(&self.inner),
            content: Arc::clone(&self.content),
        }));
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
        self.inner.end_quarantine_of_blob(&digest);
        Ok(())
    }

    fn establish_layer(&self, diff_id: Digest) -> Result<(), InstallError> {
        let digest = self.digest;
        let path = self.inner.folders.unpacking(&digest);
        let sealed = seal::seal(&path, &mut Unhurried)
            .on_disk("read", &path)
            .map_err(disk(digest))?;
        // Blocks of a file system are more than what is in them.
        if let Some(limit) = self.inner.settings.max_bytes
            && let Err(missing) = self.content.extend_to(sealed.bytes, limit)
        {
            self.drop_tree()?;
            return Err(InstallError::NoSpace {
                digest,
                needed: sealed.bytes,
                missing,
                limit: SpaceLimit::Setting(limit),
            });
        }
        let layer = LayerRecord {
            diff_id,
            bytes: sealed.bytes,
            seal: sealed.seal,
        };
        imprint::write(&path, &layer)
            .on_disk("write on", &path)
            .map_err(disk(digest))?;
        self.inner
            .folders
            .establish_layer(&digest)
            .map_err(disk(digest))?;
        let row = layer.clone();
        self.inner
            .db
            .write(move |db| db::put_layer(db, &digest, &row))
            .wait()
            .map_err(|source| InstallError::Database { digest, source })?;
        let mut state = self.inner.ledger.lock();
        state.inventory.layers.insert(digest, layer);
        self.content.give_back(&mut state);
        drop(state);
        muster_fault::hit(crate::fault::LAYER_RECORDED);
        Ok(())
    }
}
