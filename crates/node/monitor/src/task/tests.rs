//! The task, on this machine's own counters and a clock of the runtime's that is wound by hand.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use muster_alert::AlertSink;
use muster_api::domain::{
    Alert, AlertKind, AlertRule, AlertRules, AlertStatus, InstanceIdent, Interval, ItemId,
    ItemType, Percent, QuotaParameter, SubjectId,
};
use muster_cgroup::CgroupPath;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::Monitor;
use crate::clock::{Clock, Moment};
use crate::handle::MonitorHandle;
use crate::profile::NodeProfile;
use crate::settings::MonitorSettings;
use crate::traffic::NoTraffic;
use crate::watch::InstanceWatch;

const PERIOD: Duration = Duration::from_secs(10);

/// The runtime's clock, which stands unless everybody waits.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        let steady = self.0.elapsed();
        Moment {
            steady,
            wall: SystemTime::UNIX_EPOCH + steady,
        }
    }
}

/// Keeps what was raised.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Alert>>);

impl AlertSink for Kept {
    fn raise(&self, alert: Alert) {
        self.0.lock().unwrap().push(alert);
    }
}

impl Kept {
    /// Seconds, and what was said then.
    fn take(&self) -> Vec<(u64, AlertStatus)> {
        let alerts = std::mem::take(&mut *self.0.lock().unwrap());
        let part = |alert: Alert| {
            let at = SystemTime::from(alert.timestamp);
            let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            match alert.kind {
                AlertKind::SystemQuota {
                    parameter: QuotaParameter::Ram,
                    status,
                    ..
                } => (at.as_secs(), status),
                other => panic!("{other:?}"),
            }
        };
        alerts.into_iter().map(part).collect()
    }
}

struct Rig {
    handle: MonitorHandle,
    alerts: Arc<Kept>,
    task: JoinHandle<()>,
}

fn start() -> Rig {
    let alerts = Arc::new(Kept::default());
    let node = NodeProfile {
        max_dmips: 10_000,
        cores: NonZeroU64::MIN,
        total_ram: 1,
        partitions: Vec::new(),
    };
    let settings = MonitorSettings::new(PERIOD, PERIOD * 6).unwrap();
    let clock = Arc::new(RuntimeClock(Instant::now()));
    let (handle, monitor) =
        Monitor::new(settings, node, Arc::new(NoTraffic), alerts.clone(), clock);
    Rig {
        handle,
        alerts,
        task: tokio::spawn(monitor.run()),
    }
}

/// Every machine uses more than one byte.
fn always(seconds: u64) -> AlertRules {
    let percent = |value| Percent::new(value).unwrap();
    let duration = Interval::try_from(Duration::from_secs(seconds)).unwrap();
    AlertRules {
        ram: AlertRule::new(duration, percent(50.0), percent(90.0)).ok(),
        ..AlertRules::default()
    }
}

fn watch(number: u64, group: &str) -> InstanceWatch {
    InstanceWatch {
        ident: InstanceIdent {
            item_id: ItemId::new("item").unwrap(),
            subject_id: SubjectId::new("subject").unwrap(),
            instance: number,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        runtime_id: None,
        cgroup: CgroupPath::parse(group).ok(),
        folders: Vec::new(),
        rules: AlertRules::default(),
        cpu_limit: None,
        ram_limit: None,
    }
}

#[tokio::test(start_paused = true)]
async fn polls_and_alerts_keep_their_times() {
    let rig = start();
    rig.handle.set_node_rules(always(25));
    let mut snapshots = rig.handle.subscribe();
    for poll in 0..7 {
        let snapshot = snapshots.next().await.unwrap();
        let at = SystemTime::from(snapshot.timestamp);
        assert_eq!(at, SystemTime::UNIX_EPOCH + PERIOD * poll);
        assert!(snapshot.node.ram.unwrap() > 1);
    }
    let said = [(30, AlertStatus::Raise), (60, AlertStatus::Continue)];
    assert_eq!(rig.alerts.take(), said);
    // Between two polls: it need not wait for the next.
    sleep(PERIOD / 2).await;
    rig.handle.set_node_rules(AlertRules::default());
    sleep(PERIOD / 4).await;
    assert_eq!(rig.alerts.take(), [(65, AlertStatus::Fall)]);
    assert!(rig.handle.average().unwrap().node.ram > 1);
    // The end of the monitor is the end of its alerts.
    rig.handle.set_node_rules(always(0));
    sleep(PERIOD / 2).await;
    assert_eq!(rig.alerts.take(), [(70, AlertStatus::Raise)]);
    rig.task.abort();
    assert!(rig.task.await.unwrap_err().is_cancelled());
    assert_eq!(rig.alerts.take(), [(72, AlertStatus::Fall)]);
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_gets_the_newest_and_costs_nothing() {
    let rig = start();
    let mut snapshots = rig.handle.subscribe();
    sleep(PERIOD * 100 + PERIOD / 2).await;
    let newest = snapshots.next().await.unwrap();
    let at = SystemTime::from(newest.timestamp);
    assert_eq!(at, SystemTime::UNIX_EPOCH + PERIOD * 100);
    // Only the channel and whoever took it hold a snapshot.
    drop(newest);
    let latest = rig.handle.latest().unwrap();
    assert_eq!(Arc::strong_count(&latest), 2);
    rig.task.abort();
    assert!(snapshots.next().await.is_none(), "the monitor has ended");
    assert!(snapshots.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn instances_come_and_go_and_a_missing_group_is_no_reason_to_stop() {
    let rig = start();
    let mut snapshots = rig.handle.subscribe();
    rig.handle.watch(watch(0, "no/such/group.service"));
    rig.handle.watch(watch(1, ""));
    rig.handle.watch(watch(2, "x"));
    rig.handle.unwatch(&watch(2, "x").ident);
    let first = snapshots.next().await.unwrap();
    let idents: Vec<u64> = first
        .instances
        .iter()
        .map(|one| one.ident.instance)
        .collect();
    assert_eq!(idents, [0, 1]);
    assert_eq!(first.instances[0].data.ram, None);
    rig.handle.unwatch(&watch(1, "").ident);
    rig.handle.watch(watch(1, ""));
    let second = snapshots.next().await.unwrap();
    assert_eq!(second.instances.len(), 2);
    assert_eq!(second.instances[1].data.cpu, None, "it began anew");
    rig.handle.unwatch(&watch(0, "").ident);
    rig.handle.unwatch(&watch(1, "").ident);
    assert_eq!(snapshots.next().await.unwrap().instances, []);
    rig.task.abort();
}

#[tokio::test(start_paused = true)]
async fn wishes_of_a_monitor_that_has_ended_are_void() {
    let rig = start();
    let Rig { handle, task, .. } = rig;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    for number in 0..1000 {
        handle.watch(watch(number, "x"));
    }
    handle.set_node_rules(always(1));
    let waiting = handle.wishes();
    assert!(waiting.instances.is_empty() && waiting.node_rules.is_none());
}
