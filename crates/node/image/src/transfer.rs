//! One blob or layer: from its places to its name in the store.
//!
//! The asynchronous side asks places and sends pieces; a thread of its own takes them, and holds everything that must not be given
//! up half way: the turn for the digest, the reserved space, the file. A caller who stops waiting therefore stops the download and
//! nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::Digest;
use muster_item::LayerFormat;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, mpsc};

use crate::documents;
use crate::error::{InstallError, SpaceLimit};
use crate::fetch::{FetchBlobError, QUEUE, Wanted, fetch};
use crate::folders::OnDisk;
use crate::install::{Job, blocking};
use crate::ledger::Reservation;
use crate::store::{ImageStore, Inner};
use crate::take::{LayerOrder, Outcome, Purpose, Task, disk};

/// Space that is reserved for a compressed layer's content, in sizes of the layer. What it takes beyond that is reserved as it comes,
/// and what it really takes is counted afterwards.
const EXPECTED_RATIO: u64 = 3;

/// What a try holds, and gives back when its thread is done.
struct Held {
    _turn: OwnedMutexGuard<()>,
    _permit: OwnedSemaphorePermit,
}

impl ImageStore {
    /// Makes a document present, anew if the one that is here is damaged. It will be read into memory, so it may not claim to be
    /// larger than documents are.
    pub(crate) async fn fetch_document(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
    ) -> Result<(), InstallError> {
        self.check_claim(digest, size)?;
        self.fetch_blob(job, digest, size, Purpose::Document)
            .await?;
        let store = self.clone();
        match blocking(digest, move || store.inner.read_blob(&digest)).await {
            Err(InstallError::Damaged { .. }) => {}
            // What else may be wrong with it, whoever reads it will say.
            _ => return Ok(()),
        }
        tracing::warn!(%digest, "a document is damaged and is got anew");
        let store = self.clone();
        blocking(digest, move || store.inner.doubt(digest)).await?;
        self.fetch_blob(job, digest, size, Purpose::Document).await
    }

    /// Makes a blob present that nobody here looks into.
    pub(crate) async fn fetch_content(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
    ) -> Result<(), InstallError> {
        self.fetch_blob(job, digest, size, Purpose::Blob).await
    }

    /// Refuses a document that says of itself that it is too large.
    pub(crate) fn check_claim(
        &self,
        digest: Digest,
        size: Option<u64>,
    ) -> Result<(), InstallError> {
        let limit = self.inner.settings.documents.document_bytes as u64;
        let checked = documents::check_claim(size, limit);
        checked.map_err(|source| InstallError::Fetch { digest, source })
    }

    async fn fetch_blob(
        &self,
        job: &Job,
        digest: Digest,
        size: Option<u64>,
        purpose: Purpose,
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
        self.transfer(job, digest, size, purpose, turn).await
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
        let store = self.clone();
        let there = move || store.inner.part_of(&digest, size);
        let (there, size) = blocking(digest, there).await?;
        let wanted = Wanted {
            digest,
            size,
            limit,
            tries: self.inner.settings.tries.max(1),
            delay: self.inner.settings.retry_delay,
            is_document: matches!(purpose, Purpose::Document),
        };
        let store = self.clone();
        let all = size.unwrap_or(limit);
        let reserve = move || store.inner.reserve(digest, all, there, purpose);
        let (space, content) = blocking(digest, reserve).await?;

        let (sender, receiver) = mpsc::channel(QUEUE);
        let task = Task {
            inner: Arc::clone(&self.inner),
            meter: Arc::clone(&job.meter),
            digest,
            purpose,
            there,
            space: Arc::new(space),
            content: Arc::new(content),
        };
        let taking = blocking(digest, move || {
            let outcome = task.run(receiver);
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
    /// How much of a blob is there from earlier, and how much it has in all. Without a known size nothing is believed.
    ///
    /// All of it is there if only its layer is missing. Then it was verified, and its size is known, whatever a descriptor says.
    fn part_of(
        &self,
        digest: &Digest,
        size: Option<u64>,
    ) -> Result<(u64, Option<u64>), InstallError> {
        if let Some(bytes) = self.ledger.lock().inventory.blobs.get(digest) {
            return Ok((*bytes, Some(*bytes)));
        }
        let path = self.folders.partial(digest);
        match (fs::metadata(&path), size) {
            (Ok(found), Some(size)) if found.len() <= size => Ok((found.len(), Some(size))),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok((0, size)),
            (found, _) => {
                found
                    .and_then(|_| fs::remove_file(&path))
                    .on_disk("remove", &path)
                    .map_err(disk(*digest))?;
                self.ledger.lock().inventory.partials.remove(digest);
                Ok((0, size))
            }
        }
    }

    /// Promises space for what is to come of a blob and for what is made of it, after removing what nobody wants if that is
    /// needed.
    fn reserve(
        &self,
        digest: Digest,
        all: u64,
        there: u64,
        purpose: Purpose,
    ) -> Result<(Reservation, Reservation), InstallError> {
        let content = match purpose {
            Purpose::Document | Purpose::Blob => 0,
            Purpose::Layer(order) => match order.format {
                LayerFormat::Tar => all,
                LayerFormat::TarGzip | LayerFormat::TarZstd => all.saturating_mul(EXPECTED_RATIO),
            },
        };
        let needed = all.saturating_sub(there).saturating_add(content);
        let limit = self.settings.max_bytes.unwrap_or(u64::MAX);
        let refuse = |missing, limit| InstallError::NoSpace {
            digest,
            needed,
            missing,
            limit,
        };
        for last in [false, true] {
            // In this order: what is written in between counts twice rather than not at all.
            let promised = self.ledger.lock().still_to_come();
            let free = self.folders.free_bytes().map_err(disk(digest))?;
            let short = needed.saturating_add(promised).saturating_sub(free);
            let missing = match (short, Reservation::take(&self.ledger, needed, limit)) {
                (0, Ok(reservation)) => return Ok(reservation.split(content)),
                (short, Ok(_)) if last => return Err(refuse(short, SpaceLimit::FileSystem(free))),
                (_, Err(missing)) if last => {
                    return Err(refuse(missing, SpaceLimit::Setting(limit)));
                }
                (short, Ok(_)) => short,
                (short, Err(missing)) => short.max(missing),
            };
            self.ledger.give_recovered_up();
            if let Err(error) = self.collect(SystemTime::now(), missing) {
                tracing::warn!(%error, "cannot make room for images");
            }
        }
        Err(refuse(needed, SpaceLimit::Setting(limit)))
    }
}
