//! The task that measures.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use muster_alert::AlertSink;
use muster_api::domain::{Alert, AlertKind, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use crate::clock::{Clock, Moment};
use crate::disk::{Job, MeasureError, PlaceRemark, Progress, Remark};
use crate::engine::{Engine, Unread};
use crate::handle::{Counts, Inbox, MonitorHandle, Published};
use crate::profile::NodeProfile;
use crate::sample::Sampler;
use crate::settings::MonitorSettings;
use crate::traffic::TrafficSource;

/// How long a poll waits for disks, and never longer than half its period. What comes later is in the next snapshot.
const DISK_PATIENCE: Duration = Duration::from_millis(500);

/// How many places a thread may be ahead of whoever takes what it tells.
const PROGRESS: usize = 64;

/// Measures; see the crate's documentation.
#[derive(Debug)]
pub struct Monitor {
    engine: Engine,
    sampler: Arc<Sampler>,
    traffic: Arc<dyn TrafficSource>,
    alerts: Arc<dyn AlertSink>,
    clock: Arc<dyn Clock>,
    period: Duration,
    inbox: Arc<Inbox>,
    published: watch::Sender<Option<Published>>,
    counts: Counts,
    measuring: Measuring,
}

impl Monitor {
    /// A monitor that measures this machine once it [runs](Self::run).
    #[must_use]
    pub fn new(
        settings: MonitorSettings,
        node: NodeProfile,
        traffic: Arc<dyn TrafficSource>,
        alerts: Arc<dyn AlertSink>,
        clock: Arc<dyn Clock>,
    ) -> (MonitorHandle, Self) {
        let sampler = Sampler::new(Path::new("/"));
        let (published, receiver) = watch::channel(None);
        let inbox = Arc::new(Inbox::default());
        let handle = MonitorHandle::new(inbox.clone(), receiver);
        let monitor = Self {
            engine: Engine::new(settings, node),
            sampler: Arc::new(sampler),
            traffic,
            alerts,
            clock,
            period: settings.poll_period(),
            inbox,
            published,
            counts: Counts::default(),
            measuring: Measuring::new(),
        };
        (handle, monitor)
    }

    /// Measures for ever. Dropping the future ends it, and alerts that are open then fall, since nobody would tell their end.
    pub async fn run(mut self) {
        let not_counted = self.sampler.not_counted().join(", ");
        if !not_counted.is_empty() {
            warn!(
                what = not_counted,
                "this machine does not count everything per instance"
            );
        }
        let mut ticks = interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.inbox.changed() => self.take_wishes(),
                (job, progress) = self.measuring.next() => self.settle(job, progress),
                _ = ticks.tick() => self.poll().await,
            }
        }
    }

    fn take_wishes(&mut self) {
        let wishes = self.inbox.take();
        let mut alerts = Vec::new();
        for (ident, wish) in wishes.instances {
            if wish.ends {
                alerts.extend(self.engine.unwatch(&ident));
            }
            if let Some(watch) = wish.watch {
                alerts.extend(self.engine.watch(watch));
            }
        }
        if let Some(rules) = wishes.node_rules {
            alerts.extend(self.engine.set_node_rules(&rules));
        }
        self.raise(alerts, self.now());
    }

    async fn poll(&mut self) {
        // So that an instance that has just come is in this snapshot.
        self.take_wishes();
        let moment = self.clock.now();
        let now = timestamp(moment);
        let elapsed = self.engine.begin(moment.steady);
        let measures_disks = self.measure_disks(elapsed);
        let (sampler, clock, groups) = (
            self.sampler.clone(),
            self.clock.clone(),
            self.engine.groups(),
        );
        let reading = spawn_blocking(move || sampler.sample(&groups, &*clock));
        let Ok(sample) = reading.await else {
            warn!("reading the kernel's counters was broken off");
            return;
        };
        if measures_disks {
            // It goes on by itself.
            let patience = DISK_PATIENCE.min(self.period / 2);
            let _ = timeout(patience, self.settle_all()).await;
        }
        let outcome = self.engine.step(elapsed, &sample, &*self.traffic, now);
        self.counts.polls += 1;
        self.counts.unread += outcome.unread;
        for (instance, unread) in outcome.remarks {
            tell(&instance.to_string(), unread);
        }
        self.published.send_replace(Some(Published {
            snapshot: Arc::new(outcome.snapshot),
            average: Arc::new(self.engine.average(now)),
            counts: self.counts,
        }));
        self.raise(outcome.alerts, now);
    }

    /// Whether a job was started; one that is still at work is left alone.
    fn measure_disks(&mut self, elapsed: Duration) -> bool {
        let plan = self.engine.disks.plan(elapsed);
        if plan.gives_up {
            self.measuring.give_up();
        }
        plan.remark.into_iter().for_each(tell_of_place);
        let Some(job) = plan.job else {
            return false;
        };
        match self.measuring.start(job) {
            Ok(()) => true,
            Err(error) => {
                warn!(%error, "cannot start the thread that measures disks");
                self.engine.disks.lose();
                false
            }
        }
    }

    /// Until the job that was started is done. Safe to cancel.
    async fn settle_all(&mut self) {
        while self.engine.disks.is_running() {
            let (job, progress) = self.measuring.next().await;
            self.settle(job, progress);
        }
    }

    fn settle(&mut self, job: u64, progress: Progress) {
        if let Some(remark) = self.engine.disks.settle(job, progress) {
            tell_of_place(remark);
        }
    }

    fn raise(&self, alerts: Vec<AlertKind>, timestamp: Timestamp) {
        for kind in alerts {
            self.alerts.raise(Alert { timestamp, kind });
        }
    }

    fn now(&self) -> Timestamp {
        timestamp(self.clock.now())
    }
}

fn timestamp(moment: Moment) -> Timestamp {
    // Only a clock that nobody could have set so is out of range.
    Timestamp::try_from(moment.wall)
        .or_else(|_| Timestamp::try_from(SystemTime::UNIX_EPOCH))
        .expect("1970 is in range")
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.inbox.close();
        let fallen = self.engine.end();
        self.raise(fallen, self.now());
    }
}

/// Says what of an instance cannot be read, or that all can be again.
fn tell(instance: &str, unread: Unread) {
    let parts = [
        (unread.cpu, "cpu"),
        (unread.ram, "ram"),
        (unread.pids, "pids"),
    ];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter_map(|(is_unread, name)| is_unread.then_some(name))
        .collect();
    if parts.is_empty() {
        info!(instance, "what the instance uses can be read again");
    } else {
        let what = parts.join(", ");
        info!(
            instance,
            what, "some of what the instance uses cannot be read"
        );
    }
}

fn tell_of_place((key, path, remark): PlaceRemark) {
    let (path, name) = (path.display(), key.name);
    let instance = key.owner.map(|owner| owner.to_string()).unwrap_or_default();
    match remark {
        Remark::Failed(error) => {
            let (MeasureError::FileSystem(cause) | MeasureError::Look(cause)) = error;
            warn!(%path, %name, instance, %error, %cause, "a disk's use is not known");
        }
        Remark::TooLarge => {
            warn!(%path, %name, instance, "a folder is larger than is looked at, so more of it is used than reported");
        }
        Remark::Hangs => {
            warn!(%path, %name, instance, "a file system does not answer; what it holds is measured again when it does");
        }
    }
}

/// The threads that measure disks: one, and those that hang. Threads of their own, because one that hangs in a dead file system
/// must not hold up the end of the process, as a blocking job of the runtime would.
#[derive(Debug)]
struct Measuring {
    sender: mpsc::Sender<(u64, Progress)>,
    receiver: mpsc::Receiver<(u64, Progress)>,
    /// Of the newest thread.
    unwanted: Arc<AtomicBool>,
}

impl Measuring {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel(PROGRESS);
        Self {
            sender,
            receiver,
            unwanted: Arc::default(),
        }
    }

    fn start(&mut self, job: Job) -> io::Result<()> {
        self.unwanted = Arc::default();
        let (unwanted, sender) = (self.unwanted.clone(), self.sender.clone());
        let number = job.number;
        let tell = move |progress| {
            // Waits for whoever takes it; if nobody does any more, the job is unwanted.
            let _ = sender.blocking_send((number, progress));
        };
        std::thread::Builder::new()
            .name("disk use".to_owned())
            .spawn(move || job.run(&unwanted, tell))?;
        Ok(())
    }

    /// The newest thread ends as soon as it can.
    fn give_up(&self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }

    /// What any thread tells. Safe to cancel.
    async fn next(&mut self) -> (u64, Progress) {
        let told = self.receiver.recv().await;
        told.expect("a sender is kept here")
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
