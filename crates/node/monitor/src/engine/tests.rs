use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use muster_api::domain::{
    AlertKind, AlertRule, AlertRules, AlertStatus, InstanceIdent, Interval, ItemId, ItemType,
    NodeMonitoring, PartitionName, Percent, QuotaParameter, RuntimeId, SubjectId, Timestamp,
};
use muster_cgroup::CgroupPath;
use proptest::prelude::*;

use super::{Engine, Outcome, Unread};
use crate::cpu::{CpuTimes, GroupTime};
use crate::disk::{DiskUse, Measurement, Progress};
use crate::profile::NodeProfile;
use crate::sample::{GroupSample, MachineSample, Reading, Sample};
use crate::settings::MonitorSettings;
use crate::traffic::{NoTraffic, TrafficSource, TrafficUsage};
use crate::watch::{InstanceWatch, WatchedFolder};

const PERIOD: Duration = Duration::from_secs(10);

fn name(text: &str) -> PartitionName {
    PartitionName::new(text).unwrap()
}

fn ident(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").unwrap(),
        subject_id: SubjectId::new("subject").unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn percents(seconds: u64, min: f64, max: f64) -> Option<AlertRule<Percent>> {
    let percent = |value| Percent::new(value).unwrap();
    let duration = Interval::try_from(Duration::from_secs(seconds)).unwrap();
    AlertRule::new(duration, percent(min), percent(max)).ok()
}

fn watch(number: u64, rules: AlertRules) -> InstanceWatch {
    InstanceWatch {
        ident: ident(number),
        runtime_id: RuntimeId::new("runc").ok(),
        cgroup: CgroupPath::parse(&format!("i{number}.service")).ok(),
        folders: vec![WatchedFolder {
            name: name("state"),
            path: Path::new("/state").join(number.to_string()),
            limit: Some(1000),
        }],
        rules,
        cpu_limit: Some(1000),
        ram_limit: None,
    }
}

fn engine() -> Engine {
    let settings = MonitorSettings::new(PERIOD, PERIOD * 3).unwrap();
    let node = NodeProfile {
        max_dmips: 8000,
        cores: NonZeroU64::new(4).unwrap(),
        total_ram: 1 << 30,
        partitions: vec![(name("root"), "/".into())],
    };
    Engine::new(settings, node)
}

/// The machine's counters in the course of a test.
#[derive(Clone)]
struct World {
    now: Duration,
    machine: MachineSample,
    groups: Vec<GroupSample>,
}

impl World {
    fn new(groups: usize) -> Self {
        let times = CpuTimes { busy: 0, total: 0 };
        let group = GroupSample {
            cpu: Reading::Value(GroupTime {
                nanos: 0,
                at: Duration::ZERO,
            }),
            memory: Reading::Value(1 << 20),
            pids: Reading::Value(2),
        };
        Self {
            now: Duration::ZERO,
            machine: MachineSample {
                cpu: Reading::Value(times),
                memory: Reading::Value(1 << 29),
            },
            groups: vec![group; groups],
        }
    }

    /// A period passes, in which the machine is half busy and each group uses so much of one core.
    fn pass(&mut self, percent: u64) {
        self.now += PERIOD;
        if let Reading::Value(times) = &mut self.machine.cpu {
            times.busy += 500;
            times.total += 1000;
        }
        for group in &mut self.groups {
            if let Reading::Value(time) = &mut group.cpu {
                time.at = self.now;
                time.nanos += percent * 100_000_000;
            }
        }
    }

    fn poll(&self, engine: &mut Engine) -> Outcome {
        self.poll_with(engine, &NoTraffic)
    }

    fn poll_with(&self, engine: &mut Engine, traffic: &dyn TrafficSource) -> Outcome {
        let elapsed = engine.begin(self.now);
        let sample = Sample {
            machine: self.machine,
            groups: self.groups.clone(),
        };
        let timestamp = Timestamp::try_from(SystemTime::UNIX_EPOCH + self.now).unwrap();
        engine.step(elapsed, &sample, traffic, timestamp)
    }
}

fn statuses(alerts: &[AlertKind]) -> Vec<(QuotaParameter, u64, AlertStatus)> {
    let part = |kind: &AlertKind| match kind {
        AlertKind::SystemQuota {
            parameter,
            value,
            status,
        }
        | AlertKind::InstanceQuota {
            parameter,
            value,
            status,
            ..
        } => (parameter.clone(), *value, *status),
        other => panic!("{other:?}"),
    };
    alerts.iter().map(part).collect()
}

#[test]
fn counters_become_use_and_use_becomes_averages() {
    let mut engine = engine();
    assert_eq!(engine.watch(watch(0, AlertRules::default())), []);
    let mut world = World::new(1);
    let first = world.poll(&mut engine).snapshot;
    assert_eq!((first.node.cpu, first.node.ram), (None, Some(1 << 29)));
    assert_eq!(first.instances[0].data.cpu, None);
    world.pass(100);
    let second = world.poll(&mut engine).snapshot;
    assert_eq!(second.node.cpu.unwrap().dmips, 4000);
    let cpu = second.instances[0].data.cpu.unwrap();
    assert_eq!((cpu.dmips, cpu.percent), (2000, 25.0));
    assert_eq!(second.instances[0].data.pids, Some(2));
    world.pass(0);
    let third = world.poll(&mut engine).snapshot;
    let wire = NodeMonitoring::from(&third);
    assert_eq!(
        (wire.instances[0].data.cpu, wire.instances[0].data.ram),
        (0, 1 << 20)
    );
    assert_eq!(wire.instances[0].runtime_id, RuntimeId::new("runc").ok());
    assert_eq!(wire.node.partitions, [], "not measured yet");
    // 3 * 2000 = 6000; 6000 - 2000 + 0 = 4000; 4000 / 3.
    let average = engine.average(wire.node.timestamp);
    assert_eq!(average.instances[0].data.cpu, 1333);
    assert_eq!(average.node.cpu, 4000);
}

#[test]
fn disks_and_traffic_are_part_of_it() {
    #[derive(Debug)]
    struct Counted(Mutex<u64>);
    impl TrafficSource for Counted {
        fn node(&self) -> Option<TrafficUsage> {
            let mut download = self.0.lock().unwrap();
            *download += 30;
            Some(TrafficUsage {
                download: *download,
                upload: 5,
            })
        }
        fn instance(&self, instance: &InstanceIdent) -> Option<TrafficUsage> {
            (instance.instance == 0).then_some(TrafficUsage {
                download: 7,
                upload: 8,
            })
        }
    }
    let mut engine = engine();
    let rules = AlertRules {
        partitions: vec![(name("state"), percents(0, 50.0, 90.0).unwrap())],
        ..AlertRules::default()
    };
    let _ = engine.watch(watch(0, rules));
    let _ = engine.watch(watch(1, AlertRules::default()));
    let job = engine.disks.plan(PERIOD).job.unwrap();
    for (key, path) in job.partitions.into_iter().chain(job.folders) {
        let found = Ok(DiskUse {
            used: 900,
            size: 1 << 30,
            complete: true,
        });
        let progress = Progress::Found(Measurement { key, path, found });
        assert_eq!(engine.disks.settle(job.number, progress), None);
    }
    let traffic = Counted(Mutex::new(0));
    let world = World::new(2);
    world.poll_with(&mut engine, &traffic);
    let outcome = world.poll_with(&mut engine, &traffic);
    // The limit is the folder's, not the file system's.
    let state = QuotaParameter::Partition(name("state"));
    assert_eq!(
        statuses(&outcome.alerts),
        [(state, 900, AlertStatus::Continue)]
    );
    let wire = NodeMonitoring::from(&outcome.snapshot);
    assert_eq!((wire.node.download, wire.node.upload), (60, 5));
    assert_eq!(wire.node.partitions[0].used_size, 900);
    assert_eq!(wire.instances[0].data.upload, 8);
    assert_eq!(wire.instances[1].data.upload, 0);
    assert_eq!(outcome.snapshot.instances[1].data.traffic, None);
    // 3 * 30 = 90; 90 - 30 + 60 = 120; 120 / 3.
    assert_eq!(engine.average(wire.node.timestamp).node.download, 40);
}

#[test]
fn alerts_rise_and_fall_at_their_times() {
    let mut engine = engine();
    let rules = AlertRules {
        cpu: percents(20, 50.0, 90.0),
        ..AlertRules::default()
    };
    let _ = engine.watch(watch(0, rules));
    let mut world = World::new(1);
    world.poll(&mut engine);
    // Percentages refer to the instance's limit of 1000 DMIPS, half a core.
    let mut said = Vec::new();
    for percent in [50, 50, 50, 50, 50, 30, 10, 10, 10, 10] {
        world.pass(percent);
        let outcome = world.poll(&mut engine);
        said.extend(
            statuses(&outcome.alerts)
                .into_iter()
                .map(|change| (world.now.as_secs(), change)),
        );
    }
    let cpu = |value, status| (QuotaParameter::Cpu, value, status);
    assert_eq!(
        said,
        [
            (30, cpu(1000, AlertStatus::Raise)),
            (50, cpu(1000, AlertStatus::Continue)),
            (90, cpu(200, AlertStatus::Fall)),
        ]
    );
}

#[test]
fn the_node_has_rules_of_its_own() {
    let mut engine = engine();
    let rules = AlertRules {
        ram: percents(0, 20.0, 50.0),
        ..AlertRules::default()
    };
    assert_eq!(engine.set_node_rules(&rules), []);
    let outcome = World::new(0).poll(&mut engine);
    assert_eq!(
        outcome.alerts,
        [AlertKind::SystemQuota {
            parameter: QuotaParameter::Ram,
            value: 1 << 29,
            status: AlertStatus::Raise,
        }]
    );
    assert_eq!(engine.set_node_rules(&rules), [], "the same rules");
    let fell = statuses(&engine.set_node_rules(&AlertRules::default()));
    assert_eq!(fell, [(QuotaParameter::Ram, 1 << 29, AlertStatus::Fall)]);
}

#[test]
fn an_instance_that_goes_ends_its_alerts() {
    let mut engine = engine();
    let rules = AlertRules {
        ram: percents(0, 0.0, 0.0),
        ..AlertRules::default()
    };
    let _ = engine.watch(watch(0, rules.clone()));
    let world = World::new(1);
    assert_eq!(world.poll(&mut engine).alerts.len(), 1);
    assert_eq!(engine.watch(watch(0, rules)), [], "watched again, and so");
    let fell = engine.unwatch(&ident(0));
    assert_eq!(
        fell,
        [AlertKind::InstanceQuota {
            instance: ident(0),
            parameter: QuotaParameter::Ram,
            value: 1 << 20,
            status: AlertStatus::Fall,
        }]
    );
    assert_eq!(engine.unwatch(&ident(0)), []);
    assert_eq!(engine.groups(), []);
}

#[test]
fn what_cannot_be_read_is_absent_said_once_and_moves_nothing() {
    let mut engine = engine();
    let rules = AlertRules {
        ram: percents(0, 0.0, 0.0),
        ..AlertRules::default()
    };
    let _ = engine.watch(watch(0, rules));
    let mut world = World::new(1);
    world.poll(&mut engine);
    world.pass(100);
    world.poll(&mut engine);
    let mut broken = world.clone();
    broken.pass(100);
    broken.groups[0].memory = Reading::Lost;
    broken.groups[0].cpu = Reading::Lost;
    broken.machine.memory = Reading::Lost;
    let outcome = broken.poll(&mut engine);
    let lost = Unread {
        cpu: true,
        ram: true,
        pids: false,
    };
    assert_eq!(outcome.remarks, [(ident(0), lost)]);
    assert_eq!((outcome.unread, outcome.alerts), (3, vec![]));
    assert_eq!(outcome.snapshot.instances[0].data.ram, None);
    let average = engine.average(outcome.snapshot.timestamp);
    assert_eq!(average.instances[0].data.ram, 1 << 20, "the average stays");
    assert_eq!(broken.poll(&mut engine).remarks, [], "said once");
    world.now = broken.now + PERIOD;
    let back = world.poll(&mut engine);
    assert_eq!(back.remarks, [(ident(0), Unread::default())]);
    assert_eq!(
        back.snapshot.instances[0].data.cpu, None,
        "nothing to compare with"
    );
    assert_eq!(statuses(&back.alerts)[0].2, AlertStatus::Continue);
}

#[test]
fn a_machine_that_does_not_count_something_is_no_news() {
    let mut engine = engine();
    let _ = engine.watch(watch(0, AlertRules::default()));
    let mut world = World::new(1);
    world.groups[0].pids = Reading::NotCounted;
    let outcome = world.poll(&mut engine);
    assert_eq!((outcome.remarks, outcome.unread), (vec![], 0));
    assert_eq!(outcome.snapshot.instances[0].data.pids, None);
}

#[test]
fn neither_a_jump_nor_a_step_back_of_the_clock_moves_an_alert() {
    let mut engine = engine();
    let rules = AlertRules {
        ram: percents(60, 0.0, 0.0),
        ..AlertRules::default()
    };
    let _ = engine.watch(watch(0, rules));
    let mut world = World::new(1);
    let mut poll_at = |seconds: u64| {
        world.now = Duration::from_secs(seconds);
        statuses(&world.poll(&mut engine).alerts).len()
    };
    assert_eq!(poll_at(1000), 0);
    // A day later: no more than two periods count.
    assert_eq!(poll_at(87_400), 0);
    // Back, which counts nothing, and on from there.
    assert_eq!(poll_at(5), 0);
    assert_eq!([15, 25, 35].map(&mut poll_at), [0, 0, 0]);
    assert_eq!(poll_at(45), 1, "20 s of the jump and four times 10 s");
}

proptest! {
    /// Instances come, go and change, values are lost, the clock does what it likes: for every instance and parameter what is
    /// said begins with a raise and takes turns, and nothing is open once all is gone.
    #[test]
    fn no_alert_is_left_open(
        events in prop::collection::vec((0..4u64, 0..4u8, 0..3u64, prop::option::of(0..200u64), any::<u16>()), 0..80),
    ) {
        let mut engine = engine();
        let mut open = std::collections::BTreeSet::new();
        let mut check = |alerts: Vec<AlertKind>| {
            for alert in alerts {
                let AlertKind::InstanceQuota { instance, parameter, status, .. } = alert else {
                    return Err(TestCaseError::fail("the node has no rules"));
                };
                let key = (instance, parameter);
                let fits = match status {
                    AlertStatus::Raise => open.insert(key),
                    AlertStatus::Continue => open.contains(&key),
                    AlertStatus::Fall => open.remove(&key),
                };
                prop_assert!(fits, "{status}");
            }
            Ok(open.len())
        };
        let mut there = std::collections::BTreeSet::new();
        for (number, what, seconds, memory, now) in events {
            match what {
                0 => {
                    there.remove(&number);
                    check(engine.unwatch(&ident(number)))?;
                }
                1 => {
                    there.insert(number);
                    let ram = percents(seconds * 10, 1.0, 10.0);
                    let cpu = percents(seconds, 0.0, 0.0);
                    check(engine.watch(watch(number, AlertRules { ram, cpu, ..AlertRules::default() })))?;
                }
                _ => {
                    let mut world = World::new(there.len());
                    world.now = Duration::from_secs(now.into());
                    for group in &mut world.groups {
                        group.memory = memory.map_or(Reading::Lost, |mib| Reading::Value(mib << 20));
                        group.cpu = Reading::Value(GroupTime { nanos: now.into(), at: world.now });
                    }
                    check(world.poll(&mut engine).alerts)?;
                }
            }
        }
        for number in there {
            check(engine.unwatch(&ident(number)))?;
        }
        prop_assert_eq!(check(Vec::new())?, 0);
    }
}
