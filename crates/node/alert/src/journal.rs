//! The journal as a source of alerts.

mod progress;
mod reader;
mod rules;

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_telemetry::CancellationToken;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

pub use self::rules::{FILTER_BYTES_MAX, FILTERS_MAX, JournalSettingsError};

use self::reader::{Look, Reader};
pub(crate) use self::rules::Rules;
use crate::alerts::Found;
use crate::database::{JournalChange, JournalPlace};
use crate::faults;
use crate::instances::InstanceUnits;

/// A look at what the kernel does not tell about: folders that came or went.
const POLL: Duration = Duration::from_secs(5);
/// So long after the first news of more, others have come too.
const SETTLE: Duration = Duration::from_millis(200);
/// A place without alerts is written down so often at most.
const PLACE_PERIOD: Duration = Duration::from_secs(60);

/// Reads the journal from where it was read before, and follows it.
#[derive(Debug)]
pub struct JournalSource {
    reader: Box<Reader>,
    find: mpsc::Sender<Found>,
}

impl JournalSource {
    pub(crate) fn new(
        dirs: Vec<PathBuf>,
        rules: Rules,
        units: Arc<dyn InstanceUnits>,
        place: Option<JournalPlace>,
        find: mpsc::Sender<Found>,
    ) -> Self {
        Self {
            reader: Box::new(Reader::new(dirs, rules, units, place)),
            find,
        }
    }

    /// Reads until `stop`.
    ///
    /// # Errors
    /// Never; a journal that cannot be read is an alert, and looked for again.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let following = self.follow();
        stop.run_until_cancelled(following).await;
        Ok(())
    }

    async fn follow(self) {
        let Self { mut reader, find } = self;
        let mut written = None;
        let mut news: Option<AsyncFd<OwnedFd>> = None;
        loop {
            let looked = spawn_blocking(move || {
                let look = reader.look();
                (reader, look)
            });
            let Ok((back, look)) = looked.await else {
                // Only a defect of the reader could end it, and the panic's message has been printed.
                return;
            };
            reader = back;
            let Look {
                alerts,
                must_write,
                more,
                watch,
            } = look;
            muster_fault::hit(faults::JOURNAL_READ);
            let is_due = written.is_none_or(|at: Instant| at.elapsed() >= PLACE_PERIOD);
            let change = match must_write || !alerts.is_empty() {
                true => Some(reader.change()),
                false if is_due => reader.take_change(),
                false => None,
            };
            if let Some(journal) = change {
                written = Some(Instant::now());
                if !hand_over(&find, alerts, journal).await {
                    return;
                }
            }
            if let Some(watch) = watch {
                news = watch.and_then(listen);
            }
            if !more {
                wait(news.as_ref()).await;
            }
        }
    }
}

/// Returns when all of it is kept; false when nobody keeps alerts any more.
async fn hand_over(
    find: &mpsc::Sender<Found>,
    alerts: Vec<muster_api::domain::Alert>,
    journal: JournalChange,
) -> bool {
    let (kept, is_kept) = oneshot::channel();
    let found = Found {
        alerts,
        journal,
        kept,
    };
    find.send(found).await.is_ok() && is_kept.await.is_ok()
}

/// Makes a descriptor of notifications one that can be awaited; none when the runtime refuses, and then there is a timer.
#[expect(
    unsafe_code,
    reason = "tokio takes descriptors of other kinds than its own only so"
)]
fn listen(fd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open and owned; the `AsyncFd` takes the `OwnedFd` over, which always gives the same
    // number, and only shared references to it are ever handed out.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.ok()
}

/// Waits for more, but not for ever.
async fn wait(news: Option<&AsyncFd<OwnedFd>>) {
    let Some(news) = news else {
        return sleep(POLL).await;
    };
    tokio::select! {
        ready = news.readable() => {
            if let Ok(mut ready) = ready {
                ready.clear_ready();
            }
            sleep(SETTLE).await;
        }
        () = sleep(POLL) => {}
    }
}
