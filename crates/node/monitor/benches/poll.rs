//! What a poll of 500 instances costs, with groups of the kernel's and folders to walk: processor time per poll, and what that
//! is of one core at a period of ten seconds. Fails above the limit.

#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

use std::fs;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{
    Alert, AlertRule, AlertRules, InstanceIdent, Interval, ItemId, ItemType, PartitionName,
    Percent, SubjectId,
};
use muster_monitor::{
    AlertSink, CgroupPath, InstanceWatch, Monitor, MonitorSettings, NoTraffic, NodeProfile,
    SystemClock, WatchedFolder,
};
use rustix::time::{ClockId, clock_gettime};

const INSTANCES: u64 = 500;
const POLLS: u32 = 50;
/// Of one core, at this period.
const LIMIT_PERCENT: f64 = 2.0;
const PERIOD: Duration = Duration::from_secs(10);
/// Files in each of an instance's folders.
const FILES: usize = 10;

#[derive(Debug)]
struct Silent;

impl AlertSink for Silent {
    fn raise(&self, _: Alert) {}
}

/// Folders that go when the benchmark ends.
struct Groups(Vec<PathBuf>);

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            if let Err(error) = fs::remove_dir(folder) {
                eprintln!("{} is left: {error}", folder.display());
            }
        }
    }
}

impl Groups {
    /// A group per instance in every tree that counts something.
    fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let trees = mounts.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = *fields else {
                return None;
            };
            let counts = |option| ["cpuacct", "memory", "pids"].contains(&option);
            let wanted = kind == "cgroup2" || (kind == "cgroup" && options.split(',').any(counts));
            wanted.then(|| PathBuf::from(point))
        });
        let mut groups = Self(Vec::new());
        for tree in trees {
            let top = tree.join(name);
            groups.make(top.clone());
            // On a machine with v2 alone, what is below the top counts memory and processes only if told to.
            let _ = fs::write(top.join("cgroup.subtree_control"), "+cpu +memory +pids");
            for number in 0..INSTANCES {
                groups.make(top.join(number.to_string()));
            }
        }
        groups
    }

    fn make(&mut self, folder: PathBuf) {
        fs::create_dir(&folder).unwrap();
        self.0.push(folder);
    }
}

fn watch(number: u64, group: &str, storage: &std::path::Path) -> InstanceWatch {
    let percent = |value| Percent::new(value).unwrap();
    let rule = AlertRule::new(Interval::default(), percent(70.0), percent(90.0)).unwrap();
    let folder = |name: &str| {
        let path = storage.join(format!("{number}-{name}"));
        fs::create_dir(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(file.to_string()), b"x").unwrap();
        }
        WatchedFolder {
            name: PartitionName::new(name).unwrap(),
            path,
            limit: Some(1 << 20),
        }
    };
    InstanceWatch {
        ident: InstanceIdent {
            item_id: ItemId::new(&format!("item{number}")).unwrap(),
            subject_id: SubjectId::new("subject").unwrap(),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        runtime_id: None,
        cgroup: CgroupPath::parse(&format!("{group}/{number}")).ok(),
        folders: vec![folder("state"), folder("storage"), folder("tmp")],
        rules: AlertRules {
            cpu: Some(rule),
            ram: Some(rule),
            ..AlertRules::default()
        },
        cpu_limit: Some(1000),
        ram_limit: Some(1 << 30),
    }
}

/// Processor time of this process, or of this thread alone, so far.
fn used(by: ClockId) -> Duration {
    let time = clock_gettime(by);
    let nanos = u64::try_from(time.tv_nsec).unwrap();
    Duration::new(u64::try_from(time.tv_sec).unwrap(), 0) + Duration::from_nanos(nanos)
}

fn main() -> ExitCode {
    let name = format!("muster-bench-{}", std::process::id());
    let _groups = Groups::new(&name);
    let storage = tempfile::tempdir().unwrap();
    let node = NodeProfile {
        max_dmips: 10_000,
        cores: NonZeroU64::MIN,
        total_ram: 1 << 30,
        partitions: vec![(PartitionName::new("root").unwrap(), "/".into())],
    };
    // More often, so that it does not take so long, and with every folder walked every time, which is more than the allowance
    // gives at any period.
    let mut settings = MonitorSettings::new(PERIOD / 50, PERIOD).unwrap();
    settings.disk.rest = 0;
    let traffic = Arc::new(NoTraffic);
    let (handle, monitor) = Monitor::new(
        settings,
        node,
        traffic,
        Arc::new(Silent),
        Arc::new(SystemClock),
    );
    for number in 0..INSTANCES {
        handle.watch(watch(number, &name, storage.path()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let (each, runtime_each) = runtime.block_on(async {
        let monitor = tokio::spawn(monitor.run());
        let mut snapshots = handle.subscribe();
        // The first has to wait for the first walk through every folder.
        snapshots.next().await.unwrap();
        snapshots.next().await.unwrap();
        let clocks = [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime];
        let before = clocks.map(used);
        for _ in 0..POLLS {
            let snapshot = snapshots.next().await.unwrap();
            assert!(snapshot.instances.iter().all(|one| one.data.ram.is_some()));
        }
        let after = clocks.map(used);
        monitor.abort();
        (
            (after[0] - before[0]) / POLLS,
            (after[1] - before[1]) / POLLS,
        )
    });
    let share = 100.0 * each.as_secs_f64() / PERIOD.as_secs_f64();
    println!(
        "{INSTANCES} instances: {each:?} of processor time per poll, {share:.2} % of one core every {PERIOD:?}"
    );
    println!("of that on the runtime's thread, in many small pieces: {runtime_each:?}");
    if share > LIMIT_PERCENT {
        println!("more than {LIMIT_PERCENT} %");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
