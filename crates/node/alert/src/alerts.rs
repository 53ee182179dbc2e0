//! The task that keeps alerts.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use muster_api::domain::{Alert, AlertKind, Timestamp};
use muster_store::spool::{Amount, ENTRY_COST, Spool};
use muster_store::{Store, StoreError};
use muster_telemetry::{CancellationToken, ErrorChain};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::database::{self, Change, JournalChange, JournalPlace};
use crate::faults;
use crate::instances::InstanceUnits;
use crate::journal::{JournalSettingsError, JournalSource, Rules};
use crate::merge::{Merger, Outcome};
use crate::outbox::{AlertId, Outbox};
use crate::settings::{AlertSettings, JournalSettings};
use crate::sink::AlertSink;
use crate::text::bounded;

/// The spool's name in the database.
const SPOOL: &str = "alerts";
/// Alerts that are written together at most.
const BATCH: usize = 256;
/// Between two attempts to write, while the database refuses.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why alerts cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum OpenAlertsError {
    /// The database does not tell what was kept.
    #[error("cannot read the alerts that were kept")]
    Read(#[source] StoreError),
}

/// What the journal's reader found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) alerts: Vec<Alert>,
    pub(crate) journal: JournalChange,
    /// Answered when all of it is on the disk.
    pub(crate) kept: oneshot::Sender<()>,
}

/// Raises alerts. Clones are handles to the same queue.
#[derive(Debug, Clone)]
pub struct AlertHandle {
    queue: mpsc::Sender<Alert>,
    overflow: Arc<AtomicU64>,
}

impl AlertSink for AlertHandle {
    fn raise(&self, alert: Alert) {
        if self.queue.try_send(alert).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The node's alerts. [`run`](Self::run) is the task that keeps them.
#[derive(Debug)]
pub struct Alerts {
    store: Store,
    spool: Spool,
    settings: AlertSettings,
    merger: Merger,
    begin: Instant,
    told_lost: u64,
    place: Option<JournalPlace>,
    handle: AlertHandle,
    raised: mpsc::Receiver<Alert>,
    find: mpsc::Sender<Found>,
    found: mpsc::Receiver<Found>,
    news: watch::Sender<AlertId>,
    room: Arc<Notify>,
}

impl Alerts {
    /// Opens what was kept. The store has [`SCHEMA`](crate::SCHEMA) and the
    /// [spool's](muster_store::spool::SCHEMA).
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open(store: Store, settings: AlertSettings) -> Result<Self, OpenAlertsError> {
        let read = store.read(|db| {
            Ok((
                database::floods(db)?,
                database::told_lost(db)?,
                database::journal(db)?,
            ))
        });
        let (floods, told_lost, place) = read.await.map_err(OpenAlertsError::Read)?;
        let (queue, raised) = mpsc::channel(settings.queue.max(1));
        let (find, found) = mpsc::channel(1);
        Ok(Self {
            spool: Spool::new(store.clone(), SPOOL, settings.keep),
            merger: Merger::new(settings.merge_window, 0, floods),
            begin: Instant::now(),
            store,
            settings,
            told_lost,
            place,
            handle: AlertHandle {
                queue,
                overflow: Arc::default(),
            },
            raised,
            find,
            found,
            news: watch::Sender::new(AlertId::START),
            room: Arc::default(),
        })
    }

    /// Where alerts are raised.
    #[must_use]
    pub fn handle(&self) -> AlertHandle {
        self.handle.clone()
    }

    /// Where alerts are taken from, to be delivered.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        Outbox::new(
            self.spool.clone(),
            self.news.subscribe(),
            Arc::clone(&self.room),
        )
    }

    /// The journal as a source of alerts. It is read by a task of its own, [`JournalSource::run`]; there is one.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn journal(
        &self,
        settings: JournalSettings,
        units: Arc<dyn InstanceUnits>,
    ) -> Result<JournalSource, JournalSettingsError> {
        let rules = Rules::new(&settings, self.settings.message_bytes)?;
        Ok(JournalSource::new(
            settings.dirs,
            rules,
            units,
            self.place.clone(),
            self.find.clone(),
        ))
    }

    /// Keeps what is raised and found, until `stop`.
    ///
    /// # Errors
    /// Never; a database that refuses is asked again.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        self.tell_losses(&stop).await;
        loop {
            let mut alerts = Vec::new();
            let mut found = None;
            let next_end = self.merger.next_end();
            let end = next_end.map(|end| self.begin + Duration::from_millis(end));
            tokio::select! {
                _ = self.raised.recv_many(&mut alerts, BATCH) => {}
                Some(one) = self.found.recv() => found = Some(one),
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {}
                () = self.room.notified() => {
                    self.tell_losses(&stop).await;
                    continue;
                }
                () = stop.cancelled() => {
                    self.raised.close();
                    while let Ok(alert) = self.raised.try_recv() {
                        alerts.push(alert);
                    }
                    self.take(alerts, None, &stop).await;
                    return Ok(());
                }
            }
            self.take(alerts, found, &stop).await;
        }
    }

    async fn take(
        &mut self,
        mut alerts: Vec<Alert>,
        found: Option<Found>,
        stop: &CancellationToken,
    ) {
        let (journal, kept) = match found {
            Some(found) => {
                alerts.extend(found.alerts);
                (Some(found.journal), Some(found.kept))
            }
            None => (None, None),
        };
        let overflow = self.handle.overflow.swap(0, Ordering::Relaxed);
        if overflow > 0 {
            let text = format!(
                "{overflow} alerts were raised faster than they could be kept, and are lost"
            );
            alerts.extend(now_system(text));
        }
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut outcome = Outcome::default();
        for alert in alerts {
            let alert = bounded_alert(alert, self.settings.message_bytes);
            self.merger.offer(now, alert, &mut outcome);
        }
        self.merger.end_windows(now, &mut outcome);
        let repeats = |key| {
            let repeats = self.merger.repeats(&key).cloned();
            (key, repeats)
        };
        let change = Change {
            told: outcome.told,
            floods: outcome.counted.into_iter().map(repeats).collect(),
            journal,
            told_lost: None,
        };
        let is_kept = self.write(change, stop).await;
        if let Some(kept) = kept.filter(|_| is_kept) {
            // The reader may be gone; it will find its place again.
            let _ = kept.send(());
        }
    }

    /// Tells the controller what it will never get, when there is room for that.
    async fn tell_losses(&mut self, stop: &CancellationToken) {
        let (Ok(lost), Ok(held)) = (self.spool.lost().await, self.spool.held().await) else {
            return;
        };
        let total: u64 = lost.values().map(|amount| amount.entries).sum();
        if total <= self.told_lost {
            return;
        }
        let kinds: Vec<String> = lost
            .iter()
            .map(|(kind, amount)| format!("{} {kind}", amount.entries))
            .collect();
        let text = format!(
            "{} alerts were dropped because too many waited for the controller (ever dropped: {})",
            total - self.told_lost,
            kinds.join(", ")
        );
        let Some(alert) = now_system(text) else {
            return;
        };
        if !self.has_room(held, &alert) {
            return;
        }
        let change = Change {
            told: vec![alert],
            told_lost: Some(total),
            ..Change::default()
        };
        if self.write(change, stop).await {
            self.told_lost = total;
        }
    }

    fn has_room(&self, held: Amount, alert: &Alert) -> bool {
        let size = u64::try_from(database::encode(alert).len()).unwrap_or(u64::MAX);
        let limits = self.settings.keep;
        held.entries < limits.entries
            && held.bytes.saturating_add(size).saturating_add(ENTRY_COST) <= limits.bytes
    }

    /// Writes until it succeeds; what is raised meanwhile waits in the queue, and the journal where it is. False when the
    /// end comes first.
    async fn write(&mut self, change: Change, stop: &CancellationToken) -> bool {
        if change.is_empty() {
            return true;
        }
        muster_fault::hit(faults::DECIDED);
        let change = Arc::new(change);
        let mut pause = FIRST_PAUSE;
        loop {
            let (shared, spool) = (Arc::clone(&change), self.spool.clone());
            match self.store.write(move |db| shared.write(db, &spool)).await {
                Ok(newest) => {
                    muster_fault::hit(faults::KEPT);
                    if pause > FIRST_PAUSE {
                        tracing::info!("alerts can be kept again");
                    }
                    if let Some(number) = newest {
                        let number = AlertId::from_number(number.unsigned_abs());
                        self.news.send_replace(number);
                    }
                    return true;
                }
                Err(error) => {
                    // Said once: an entry in the journal for each attempt would be an alert for each attempt.
                    if pause == FIRST_PAUSE {
                        tracing::error!(error = %ErrorChain(&error), "cannot keep alerts; trying again");
                    }
                    if stop.is_cancelled() || stop.run_until_cancelled(sleep(pause)).await.is_none()
                    {
                        return false;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Something that this crate itself has to say; none when the clock shows a year that cannot be told.
pub(crate) fn now_system(message: String) -> Option<Alert> {
    let timestamp = Timestamp::try_from(SystemTime::now()).ok()?;
    Some(Alert {
        timestamp,
        kind: AlertKind::System { message },
    })
}

fn bounded_alert(mut alert: Alert, max: usize) -> Alert {
    if let AlertKind::ResourceAllocate { message, .. }
    | AlertKind::System { message }
    | AlertKind::Core { message, .. }
    | AlertKind::Instance { message, .. } = &mut alert.kind
    {
        *message = bounded(std::mem::take(message), max);
    }
    alert
}
