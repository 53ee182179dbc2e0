//! A group in every tree of the machine, load in it, and a monitor that looks.

use std::fs;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use muster_api::domain::{
    Alert, AlertKind, AlertRules, AlertStatus, InstanceIdent, ItemId, ItemType, PartitionName,
    SubjectId,
};
use muster_lab::poll_until;
use muster_monitor::{
    AlertSink, CgroupPath, InstanceWatch, Monitor, MonitorHandle, MonitorSettings, NoTraffic,
    NodeProfile, SystemClock, WatchedFolder,
};
use tokio::sync::mpsc;

pub(crate) const TIME: Duration = Duration::from_secs(60);
pub(crate) const MAX_DMIPS: u64 = 1_000_000;

/// Where a tree is mounted: the one of a v1 controller, or that of v2 (`cgroup2`).
fn tree(wanted: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, point, kind, options, ..] = *fields else {
            return None;
        };
        let has = |name: &str| options.split(',').any(|option| option == name);
        let is_it = kind == wanted || (kind == "cgroup" && has(wanted));
        is_it.then(|| PathBuf::from(point))
    })
}

/// A group of the test's own, gone with everything in it when dropped.
pub(crate) struct Group {
    name: String,
    pub(crate) cpu: PathBuf,
    pub(crate) memory: PathBuf,
    pub(crate) pids: PathBuf,
}

impl Group {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("load-{}-{number}", std::process::id());
        let unified = || {
            let tree = tree("cgroup2").expect("a tree");
            fs::write(tree.join("cgroup.subtree_control"), "+cpu +memory +pids").unwrap();
            tree
        };
        let place = |controller| tree(controller).unwrap_or_else(unified).join(&name);
        let group = Self {
            cpu: place("cpuacct"),
            memory: place("memory"),
            pids: place("pids"),
            name: name.clone(),
        };
        group.make();
        group
    }

    fn folders(&self) -> [&Path; 3] {
        [&self.cpu, &self.memory, &self.pids]
    }

    pub(crate) fn make(&self) {
        for folder in self.folders() {
            fs::create_dir_all(folder).unwrap();
        }
    }

    pub(crate) fn remove(&self) {
        poll_until(TIME, "the group is empty", || {
            let gone = |folder: &&Path| fs::remove_dir(folder).is_ok() || !folder.exists();
            self.folders().iter().filter(|folder| !gone(folder)).count() == 0
        });
    }

    fn number(folder: &Path, legacy: &str, unified: &str) -> u64 {
        let text = fs::read_to_string(folder.join(legacy))
            .or_else(|_| fs::read_to_string(folder.join(unified)))
            .unwrap();
        text.split_whitespace()
            .find_map(|word| word.parse().ok())
            .unwrap()
    }

    /// Processor time, by the kernel.
    pub(crate) fn cpu_time(&self) -> Duration {
        if self.cpu.join("cpuacct.usage").exists() {
            return Duration::from_nanos(Self::number(&self.cpu, "cpuacct.usage", ""));
        }
        // Its first number is the use in microseconds.
        Duration::from_micros(Self::number(&self.cpu, "", "cpu.stat"))
    }

    /// Bytes, by the kernel.
    pub(crate) fn memory_bytes(&self) -> u64 {
        Self::number(&self.memory, "memory.usage_in_bytes", "memory.current")
    }

    /// By the kernel.
    pub(crate) fn pids_current(&self) -> u64 {
        Self::number(&self.pids, "pids.current", "")
    }

    /// Runs a script in the group.
    pub(crate) fn run(&self, script: &str) -> Load {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for folder in self.folders() {
            fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        // It waits for this line, which comes once it is where it belongs.
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Load {
            child,
            procs: self.pids.join("cgroup.procs"),
        }
    }

    /// Takes so many MiB of memory and keeps them; waits until it has them.
    pub(crate) fn take_memory(&self, mib: u64) -> Load {
        let before = self.memory_bytes();
        // Without a line's end, tail keeps everything.
        let load = self.run(&format!(
            "(head -c {} /dev/zero; sleep 1000) | tail",
            mib << 20
        ));
        poll_until(TIME, "the memory is taken", || {
            self.memory_bytes() >= before + (mib << 20)
        });
        load
    }

    pub(crate) fn watch(&self) -> InstanceWatch {
        InstanceWatch {
            ident: ident(0),
            runtime_id: None,
            cgroup: CgroupPath::parse(&self.name).ok(),
            folders: Vec::new(),
            rules: AlertRules::default(),
            cpu_limit: None,
            ram_limit: None,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.folders().map(fs::remove_dir);
        } else {
            self.remove();
        }
    }
}

/// Processes in a group, which end when it is dropped.
pub(crate) struct Load {
    child: Child,
    procs: PathBuf,
}

impl Drop for Load {
    fn drop(&mut self) {
        // Children of the shell too: all of them are in the group. Those that fork meanwhile are seen in the next round.
        let end = Instant::now() + TIME;
        loop {
            let members = fs::read_to_string(&self.procs).unwrap_or_default();
            if members.trim().is_empty() || Instant::now() > end {
                break;
            }
            let members: Vec<&str> = members.split_whitespace().collect();
            let _ = Command::new("kill")
                .arg("-9")
                .args(members)
                .stderr(Stdio::null())
                .status();
            let _ = self.child.try_wait();
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn ident(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").unwrap(),
        subject_id: SubjectId::new("subject").unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

pub(crate) fn folder(name: &str, path: &Path) -> WatchedFolder {
    WatchedFolder {
        name: PartitionName::new(name).unwrap(),
        path: path.to_owned(),
        limit: None,
    }
}

/// Hands on which alert is of which poll.
#[derive(Debug)]
struct Told(mpsc::Sender<(SystemTime, AlertStatus)>);

impl AlertSink for Told {
    fn raise(&self, alert: Alert) {
        let AlertKind::InstanceQuota { status, .. } = alert.kind else {
            panic!("{alert:?}");
        };
        // At the end of a test nobody may be there any more.
        let _ = self.0.try_send((alert.timestamp.into(), status));
    }
}

pub(crate) type Alerts = mpsc::Receiver<(SystemTime, AlertStatus)>;

pub(crate) fn cores() -> NonZeroU64 {
    std::thread::available_parallelism()
        .unwrap()
        .try_into()
        .unwrap()
}

/// Runs a test beside a monitor that polls so often.
pub(crate) fn with_monitor<F: Future<Output = ()>>(
    period: Duration,
    test: impl FnOnce(MonitorHandle, Alerts) -> F,
) {
    with_settings(MonitorSettings::new(period, period).unwrap(), test);
}

/// Runs a test beside a monitor.
pub(crate) fn with_settings<F: Future<Output = ()>>(
    settings: MonitorSettings,
    test: impl FnOnce(MonitorHandle, Alerts) -> F,
) {
    let (sender, alerts) = mpsc::channel(64);
    let node = NodeProfile {
        max_dmips: MAX_DMIPS,
        cores: cores(),
        total_ram: 1 << 30,
        partitions: vec![(PartitionName::new("root").unwrap(), "/".into())],
    };
    let (handle, monitor) = Monitor::new(
        settings,
        node,
        Arc::new(NoTraffic),
        Arc::new(Told(sender)),
        Arc::new(SystemClock),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let monitor = tokio::spawn(monitor.run());
        let test = tokio::time::timeout(TIME * 2, test(handle, alerts));
        test.await.expect("the test ends");
        assert!(!monitor.is_finished(), "the monitor goes on");
    });
}
