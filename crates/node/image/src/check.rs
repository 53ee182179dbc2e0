//! Looking for damage, slowly: blobs are hashed again, trees are compared with their seals.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_api::domain::Digest;
use muster_telemetry::ErrorChain;

use crate::db;
use crate::error::{InstallError, MaintainError};
use crate::folders::OnDisk;
use crate::ledger::Going;
use crate::look::{Kind, Sight, Suspect};
use crate::seal::{Pace, Unhurried};
use crate::source::BlobSource;
use crate::store::{ImageStore, Inner};

/// How the background check works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckSettings {
    /// Between two rounds.
    pub every: Duration,
    /// Between two tries to repair what was found, while there is nowhere to get it from.
    pub repair_again: Duration,
    /// The most that is read, so that instances do not notice.
    pub bytes_per_second: u64,
}

impl Default for CheckSettings {
    /// Once a day, at most 4 MiB a second; a repair that fails is tried again after 5 minutes.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(24 * 60 * 60),
            repair_again: Duration::from_secs(5 * 60),
            bytes_per_second: 4 << 20,
        }
    }
}

/// What a round found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Blobs and layers that were read to their ends, or found damaged before.
    pub checked: usize,
    /// What is in quarantine now.
    pub damaged: Vec<Digest>,
    /// Items that need some of it: to be installed again.
    pub items: BTreeSet<Digest>,
}

impl ImageStore {
    /// Checks for ever: a round, repairs from `source` until they succeed, a pause. What an earlier process found and could not
    /// repair is repaired first. To be run as a task of its own; ends when it is dropped.
    pub async fn keep_checked(&self, source: Arc<dyn BlobSource>, settings: CheckSettings) {
        let mut broken = BTreeSet::new();
        loop {
            broken.extend(self.inner.ledger.lock().inventory.lacking());
            self.repair(&mut broken, &source).await;
            match self.check(settings.bytes_per_second).await {
                Ok(report) => broken.extend(report.items),
                Err(error) => tracing::warn!(error = %ErrorChain(&error), "cannot check images"),
            }
            let next_round = tokio::time::Instant::now() + settings.every;
            loop {
                self.repair(&mut broken, &source).await;
                let again = tokio::time::Instant::now() + settings.repair_again;
                if broken.is_empty() || again >= next_round {
                    break;
                }
                tokio::time::sleep_until(again).await;
            }
            tokio::time::sleep_until(next_round).await;
        }
    }

    /// Reads everything once. What is damaged goes to the quarantine: from then on it is not there. What cannot be looked at for
    /// want of memory, descriptors or the like is nobody's damage, and has its turn in the next round.
    pub async fn check(&self, bytes_per_second: u64) -> Result<CheckReport, MaintainError> {
        let stop = StopOnDrop(Arc::default());
        let throttle = Throttle {
            bytes_per_second: bytes_per_second.max(1),
            started: Instant::now(),
            read: 0,
            stop: Arc::clone(&stop.0),
        };
        let inner = Arc::clone(&self.inner);
        let round = tokio::task::spawn_blocking(move || inner.check(throttle));
        round.await.map_err(|_| MaintainError::Stopped)?
    }

    /// What cannot be repaired stays in the list. What nobody wants any more is not got again.
    async fn repair(&self, broken: &mut BTreeSet<Digest>, source: &Arc<dyn BlobSource>) {
        let items = self.inventory().items;
        broken.retain(|item| items.get(item).is_some_and(|it| it.removed_at.is_none()));
        for item in broken.clone() {
            match self.install(item, Arc::clone(source), None).await {
                Ok(_) => {
                    tracing::info!(%item, "repaired a damaged image");
                    broken.remove(&item);
                }
                Err(error) => {
                    tracing::error!(%item, error = %ErrorChain(&error), "cannot repair a damaged image");
                }
            }
        }
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sleeps as soon as more was read than the time allows for.
struct Throttle {
    bytes_per_second: u64,
    started: Instant,
    read: u64,
    stop: Arc<AtomicBool>,
}

impl Throttle {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Pace for Throttle {
    fn read(&mut self, bytes: usize) -> io::Result<()> {
        const NAP: Duration = Duration::from_millis(100);
        self.read += bytes as u64;
        loop {
            if self.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let nanos = u128::from(self.read) * 1_000_000_000 / u128::from(self.bytes_per_second);
            let due = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            match due.checked_sub(self.started.elapsed()) {
                None | Some(Duration::ZERO) => return Ok(()),
                Some(ahead) => std::thread::sleep(ahead.min(NAP)),
            }
        }
    }
}

impl Inner {
    fn check(&self, mut throttle: Throttle) -> Result<CheckReport, MaintainError> {
        let (blobs, layers) = {
            let state = self.ledger.lock();
            let blobs: Vec<Digest> = state.inventory.blobs.keys().copied().collect();
            let layers: Vec<Digest> = state.inventory.layers.keys().copied().collect();
            (blobs, layers)
        };
        let mut report = CheckReport::default();
        let blobs = blobs.into_iter().map(|digest| (digest, Kind::Blob));
        let layers = layers.into_iter().map(|digest| (digest, Kind::Layer));
        for (digest, kind) in blobs.chain(layers) {
            let Some(known) = self.known(&digest, kind) else {
                continue;
            };
            let sight = self.look(&digest, &known, &mut throttle);
            if throttle.is_stopped() {
                return Err(MaintainError::Stopped);
            }
            match sight {
                Sight::Whole => report.checked += 1,
                Sight::Damaged => {
                    report.checked += 1;
                    self.judge(digest, kind, &mut report)?;
                }
                Sight::Unseen(error) => warn_of(&digest, &error),
            }
        }
        Ok(report)
    }

    fn known(&self, digest: &Digest, kind: Kind) -> Option<Suspect> {
        let state = self.ledger.lock();
        match kind {
            Kind::Blob => state
                .inventory
                .blobs
                .get(digest)
                .copied()
                .map(Suspect::Blob),
            Kind::Layer => state
                .inventory
                .layers
                .get(digest)
                .cloned()
                .map(Suspect::Layer),
        }
    }

    /// Takes something suspicious out, looks again now that nobody can change it, and puts it into quarantine.
    ///
    /// What was collected meanwhile is not damaged but gone, and what was collected and came again is good.
    fn judge(
        &self,
        digest: Digest,
        kind: Kind,
        report: &mut CheckReport,
    ) -> Result<(), MaintainError> {
        let Some((suspect, _going)) = self.disown(&digest, kind) else {
            return Ok(());
        };
        match self.look(&digest, &suspect, &mut Unhurried) {
            Sight::Damaged => {}
            Sight::Whole => {
                self.own(digest, suspect);
                return Ok(());
            }
            Sight::Unseen(error) => {
                warn_of(&digest, &error);
                self.own(digest, suspect);
                return Ok(());
            }
        }
        tracing::error!(%digest, ?kind, "damage found in the image store");
        let write = move |db: &_| match kind {
            Kind::Blob => db::forget_blob(db, &digest),
            Kind::Layer => db::forget_layer(db, &digest),
        };
        self.db
            .write(write)
            .wait()
            .map_err(MaintainError::Database)?;
        muster_fault::hit(crate::fault::DAMAGE_RECORDED);
        let path = match kind {
            Kind::Blob => self.folders.blob(&digest),
            Kind::Layer => self.folders.layer(&digest),
        };
        let quarantine = self.folders.quarantine(&digest);
        let moved =
            self.folders
                .discard(&quarantine)
                .and_then(|()| match fs::rename(&path, &quarantine) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    moved => moved
                        .map(|()| true)
                        .on_disk("move to the quarantine", &path),
                });
        let is_set_aside = moved.map_err(MaintainError::Disk)?;
        let mut state = self.ledger.lock();
        let quarantined = &mut state.inventory.quarantined;
        match is_set_aside {
            true => quarantined.insert(digest, suspect.bytes()),
            // Nothing is there of what takes no space any more.
            false => quarantined.remove(&digest),
        };
        let items = state.inventory.items.iter();
        let affected = items.filter(|(_, item)| {
            item.removed_at.is_none()
                && (item.blobs.contains(&digest) || item.layers.contains(&digest))
        });
        report.items.extend(affected.map(|(item, _)| *item));
        report.damaged.push(digest);
        Ok(())
    }

    /// Somebody found a blob to be something else than its name says: if that is so, it is not there any more.
    pub(crate) fn doubt(&self, digest: Digest) -> Result<(), InstallError> {
        let judged = self.judge(digest, Kind::Blob, &mut CheckReport::default());
        judged.map_err(|error| match error {
            MaintainError::Disk(source) => InstallError::Disk { digest, source },
            MaintainError::Database(source) => InstallError::Database { digest, source },
            MaintainError::Stopped => InstallError::Stopped { digest },
        })
    }

    /// From here on it is not there, unless it was gone already.
    fn disown(&self, digest: &Digest, kind: Kind) -> Option<(Suspect, Going)> {
        let mut state = self.ledger.lock();
        let inventory = &mut state.inventory;
        let suspect = match kind {
            Kind::Blob => Suspect::Blob(inventory.blobs.remove(digest)?),
            Kind::Layer => Suspect::Layer(inventory.layers.remove(digest)?),
        };
        let going = Going::enter(&self.ledger, &mut state, [*digest]);
        Some((suspect, going))
    }

    fn own(&self, digest: Digest, suspect: Suspect) {
        let inventory = &mut self.ledger.lock().inventory;
        match suspect {
            Suspect::Blob(bytes) => drop(inventory.blobs.insert(digest, bytes)),
            Suspect::Layer(layer) => drop(inventory.layers.insert(digest, layer)),
        }
    }
}

fn warn_of(digest: &Digest, error: &io::Error) {
    tracing::warn!(%digest, %error, "cannot look for damage; what is there is believed until the next round");
}
