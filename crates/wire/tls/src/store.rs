//! The current generation of certificates, and the task that renews it.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::folder_watch::FolderWatch;
use crate::material::{CertMaterial, CertSource, LoadCertError};

/// Files are looked at once nothing has happened to them for this long, since a certificate and its
/// key are replaced one after the other.
const QUIET: Duration = Duration::from_millis(100);
/// Files are looked at after this long even if something keeps happening in their folders.
const QUIET_AT_MOST: Duration = Duration::from_secs(2);
/// Files are looked at this often without any notice: network file systems give none, and a folder
/// may be swapped above the watched one.
const RESCAN: Duration = Duration::from_secs(30);
/// The same where the kernel gives no notices at all.
const RESCAN_UNWATCHED: Duration = Duration::from_secs(5);

/// A generation of certificates.
#[derive(Debug)]
pub struct Generation {
    number: u64,
    material: CertMaterial,
}

impl Generation {
    /// Counts up from 1 with every change.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What is in use.
    pub fn material(&self) -> &CertMaterial {
        &self.material
    }
}

/// Why a reload that was asked for did not happen. The old certificates stay in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The source gave nothing usable.
    #[error("the new certificates are unusable, the old ones stay in use")]
    Load(#[source] LoadCertError),
    /// The task that watches the source is gone: the runtime is shutting down.
    #[error("the certificate watcher has ended")]
    Ended,
}

type Reply = oneshot::Sender<Result<Arc<Generation>, LoadCertError>>;

/// Certificates that renew themselves: servers and clients made from one store use its current
/// generation for each new connection. Cheap to clone; the watcher ends with the last clone.
#[derive(Debug, Clone)]
pub struct CertStore {
    current: watch::Receiver<Arc<Generation>>,
    requests: mpsc::Sender<Reply>,
}

impl CertStore {
    /// Loads the certificates, and starts the task that watches the source's files.
    pub async fn open(source: impl CertSource) -> Result<Self, LoadCertError> {
        let source: Arc<dyn CertSource> = Arc::new(source);
        // Watched before they are read: a change in between is then noticed.
        let watcher = match FolderWatch::new() {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                warn!(
                    error = &error as &dyn StdError,
                    every = ?RESCAN_UNWATCHED,
                    "cannot watch certificate files for changes, they are read again at intervals"
                );
                None
            }
        };
        let mut renewal = Renewal {
            source,
            watcher,
            unwatched: false,
            last_failure: None,
        };
        renewal.arm();
        let material = renewal.load().await?;
        let generation = Arc::new(Generation {
            number: 1,
            material,
        });
        announce(&generation, "certificates loaded");
        let (publish, current) = watch::channel(generation);
        let (requests, asked) = mpsc::channel(8);
        tokio::spawn(renewal.run(publish, asked));
        Ok(Self { current, requests })
    }

    /// What new connections use now.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.current.borrow())
    }

    /// Tells when the generation changes, for instance to reconnect with the new identity.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Generation>> {
        self.current.clone()
    }

    /// Loads now, whether or not a change was noticed. Always makes a new generation when it succeeds:
    /// the key behind the same certificate may be another one.
    pub async fn reload(&self) -> Result<Arc<Generation>, ReloadError> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .send(reply)
            .await
            .map_err(|_| ReloadError::Ended)?;
        answer
            .await
            .map_err(|_| ReloadError::Ended)?
            .map_err(ReloadError::Load)
    }
}

/// State of the task that owns the source.
#[derive(Debug)]
struct Renewal {
    source: Arc<dyn CertSource>,
    watcher: Option<FolderWatch>,
    /// Whether a folder is not watched although there is a watcher.
    unwatched: bool,
    /// What was wrong last time, so that a lasting fault is one line and not one every [`RESCAN`].
    last_failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Noticed,
    Asked,
}

impl Renewal {
    async fn run(
        mut self,
        publish: watch::Sender<Arc<Generation>>,
        mut asked: mpsc::Receiver<Reply>,
    ) {
        loop {
            let reply = tokio::select! {
                request = asked.recv() => match request {
                    Some(reply) => Some(reply),
                    None => return,
                },
                () = self.noticed() => None,
            };
            let cause = if reply.is_some() {
                Cause::Asked
            } else {
                Cause::Noticed
            };
            self.arm();
            let outcome = self.renew(&publish, cause).await;
            if let Some(reply) = reply {
                // Whoever asked may have stopped waiting; the reload counts all the same.
                let _ = reply.send(outcome);
            }
        }
    }

    /// Waits until it is time to look at the files.
    async fn noticed(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return sleep(RESCAN_UNWATCHED).await;
        };
        let rescan = self.unwatched || self.source.rescans();
        let first = tokio::select! {
            first = watcher.changed() => first,
            () = sleep(RESCAN), if rescan => return,
        };
        let result = match first {
            Ok(()) => settle(watcher).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            warn!(
                error = &error as &dyn StdError,
                "watching certificate files failed, they are read again at intervals"
            );
            self.watcher = None;
        }
    }

    fn arm(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            self.unwatched = false;
            for (folder, error) in watcher.arm(&self.source.files()) {
                self.unwatched = true;
                debug!(
                    folder = %folder.display(),
                    error = &error as &dyn StdError,
                    "cannot watch a folder with certificate files"
                );
            }
        }
    }

    async fn load(&self) -> Result<CertMaterial, LoadCertError> {
        let source = Arc::clone(&self.source);
        match tokio::task::spawn_blocking(move || source.load()).await {
            Ok(result) => result,
            Err(source) => Err(LoadCertError::Source {
                object: format!("{:?}", self.source),
                source: Box::new(source),
            }),
        }
    }

    async fn renew(
        &mut self,
        publish: &watch::Sender<Arc<Generation>>,
        cause: Cause,
    ) -> Result<Arc<Generation>, LoadCertError> {
        let material = match self.load().await {
            Ok(material) => material,
            Err(error) => {
                let words = chain_words(&error);
                if cause == Cause::Asked || self.last_failure.as_ref() != Some(&words) {
                    warn!(
                        reason = %words,
                        "new certificates are unusable, the old ones stay in use until the files change again"
                    );
                }
                self.last_failure = Some(words);
                return Err(error);
            }
        };
        self.last_failure = None;
        let old = Arc::clone(&publish.borrow());
        if cause == Cause::Noticed && material.same_as(&old.material) {
            return Ok(old);
        }
        let generation = Arc::new(Generation {
            number: old.number + 1,
            material,
        });
        announce(
            &generation,
            "certificates replaced, new connections use them",
        );
        publish.send_replace(Arc::clone(&generation));
        Ok(generation)
    }
}

/// Waits until the folders have been quiet for [`QUIET`], but no longer than [`QUIET_AT_MOST`].
async fn settle(watcher: &mut FolderWatch) -> std::io::Result<()> {
    let at_most = Instant::now() + QUIET_AT_MOST;
    loop {
        let until = (Instant::now() + QUIET).min(at_most);
        match timeout_at(until, watcher.changed()).await {
            Err(_quiet) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(())) if Instant::now() >= at_most => return Ok(()),
            Ok(Ok(())) => {}
        }
    }
}

fn announce(generation: &Generation, message: &'static str) {
    let material = &generation.material;
    let own = material.own.as_ref().map(|own| own.summary().to_string());
    info!(
        generation = generation.number,
        own,
        roots = material.trust.as_ref().map(|trust| trust.roots().len()),
        revocation_lists = material.trust.as_ref().map(|trust| trust.crls().len()),
        "{message}"
    );
    for warning in &material.warnings {
        warn!("{warning}");
    }
}

/// An error and what is behind it, on one line.
pub(crate) fn chain_words(error: &dyn StdError) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        next = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it is read.
    #[derive(Debug)]
    struct Counting {
        folder: PathBuf,
        rescans: bool,
        loads: Arc<AtomicUsize>,
    }

    impl CertSource for Counting {
        fn load(&self) -> Result<CertMaterial, LoadCertError> {
            self.loads.fetch_add(1, Ordering::SeqCst);
            Ok(CertMaterial {
                own: None,
                trust: None,
                warnings: Vec::new(),
            })
        }

        fn files(&self) -> Vec<PathBuf> {
            vec![self.folder.join("ca.pem")]
        }

        fn rescans(&self) -> bool {
            self.rescans
        }
    }

    /// Reads within ten minutes in which nothing happens.
    async fn reads(folder: PathBuf, rescans: bool) -> usize {
        let loads = Arc::new(AtomicUsize::new(0));
        let source = Counting {
            folder,
            rescans,
            loads: Arc::clone(&loads),
        };
        let store = CertStore::open(source).await.unwrap();
        for _ in 0..600 {
            sleep(Duration::from_secs(1)).await;
        }
        drop(store);
        loads.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_looked_at_without_notice_unless_the_source_wants_rest() {
        let folder = tempfile::tempdir().unwrap();
        assert!(reads(folder.path().to_owned(), true).await > 10);
        assert_eq!(reads(folder.path().to_owned(), false).await, 1);
    }
}
