//! The task that measures.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use muster_alert::AlertSink;
use muster_api::domain::{Alert, AlertKind, Timestamp};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use crate::clock::Clock;
use crate::disk::{Job, MeasureError, Remark, Report};
use crate::engine::{Engine, Unread};
use crate::handle::{Counts, Inbox, MonitorHandle, Published};
use crate::profile::NodeProfile;
use crate::sample::Sampler;
use crate::settings::MonitorSettings;
use crate::traffic::TrafficSource;

/// How long a poll waits for disks. What comes later is in the next snapshot.
const DISK_PATIENCE: Duration = Duration::from_millis(500);

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
    disk_job: DiskJob,
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
            disk_job: DiskJob::default(),
        };
        (handle, monitor)
    }

    /// Measures for ever. Dropping the future ends it; alerts that are open then stay open.
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
                report = self.disk_job.finished() => self.settle(report),
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
        let now = self.now();
        let elapsed = self.engine.begin(self.clock.now().steady);
        let measures_disks = self.start_disk_job(elapsed);
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
        if measures_disks && let Ok(report) = timeout(DISK_PATIENCE, self.disk_job.finished()).await
        {
            self.settle(report);
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

    /// Whether one was started; a job that is still at work is left alone.
    fn start_disk_job(&mut self, elapsed: Duration) -> bool {
        let Some(job) = self.engine.disks.plan(elapsed) else {
            return false;
        };
        match self.disk_job.start(job) {
            Ok(()) => true,
            Err(error) => {
                warn!(%error, "cannot start the thread that measures disks");
                self.engine.disks.lose();
                false
            }
        }
    }

    fn settle(&mut self, report: Option<Report>) {
        let Some(report) = report else {
            warn!("measuring disks was broken off");
            self.engine.disks.lose();
            return;
        };
        for (key, path, remark) in self.engine.disks.settle(report) {
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
            }
        }
    }

    fn raise(&self, alerts: Vec<AlertKind>, timestamp: Timestamp) {
        for kind in alerts {
            self.alerts.raise(Alert { timestamp, kind });
        }
    }

    fn now(&self) -> Timestamp {
        let epoch = || Timestamp::try_from(SystemTime::UNIX_EPOCH);
        // Only a clock that nobody could have set so is out of range.
        Timestamp::try_from(self.clock.now().wall)
            .or_else(|_| epoch())
            .expect("1970 is in range")
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.inbox.close();
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

/// The thread that measures disks, if there is one. A thread of its own, because one that hangs in a dead file system must not
/// hold up the end of the process, as a blocking job of the runtime would.
#[derive(Debug, Default)]
struct DiskJob {
    report: Option<oneshot::Receiver<Report>>,
    unwanted: Arc<AtomicBool>,
}

impl DiskJob {
    fn start(&mut self, job: Job) -> io::Result<()> {
        let (sender, receiver) = oneshot::channel();
        let unwanted = self.unwanted.clone();
        std::thread::Builder::new()
            .name("disk use".to_owned())
            .spawn(move || {
                // Nobody may be there any more to take it.
                let _ = sender.send(job.run(&unwanted));
            })?;
        self.report = Some(receiver);
        Ok(())
    }

    /// Waits for the report of what was started; for ever if nothing was. `None` if the thread has failed. Safe to cancel.
    async fn finished(&mut self) -> Option<Report> {
        let Some(report) = &mut self.report else {
            return std::future::pending().await;
        };
        let report = report.await.ok();
        self.report = None;
        report
    }
}

impl Drop for DiskJob {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
