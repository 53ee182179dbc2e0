//! Controllers of cgroup v1, on machines that have some. On others it is seen that none are offered, and that limits are named.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use muster_cgroup::{
    Amount, CgroupPath, CpuQuota, CpuShare, DeviceAccess, DeviceFilter, DeviceKind, DeviceRule,
    Hierarchy, IoLimits, Legacy, Memory, MemoryLimits, Mode, Occasion, Plan, Resources, Subsystem,
    Subsystems, Tree,
};

use crate::{Rig, number, pid_of, place, wait_for};

/// A tree that uses them, and the place of its root in each hierarchy.
struct LegacyRig {
    rig: Rig,
    legacy: Legacy,
    below: CgroupPath,
}

impl LegacyRig {
    /// `None`, once it is seen what is said there, on a machine without such controllers.
    fn new(test: &str) -> Option<Self> {
        let hierarchy = Hierarchy::detect().unwrap();
        Self::of(test, &hierarchy)
    }

    fn of(test: &str, hierarchy: &Hierarchy) -> Option<Self> {
        let below = format!("muster-test-v1-{}-{}", std::process::id(), number());
        let below = place(&below);
        let legacy = Legacy::detect().unwrap();
        let mut tree = match Tree::open(hierarchy, &below) {
            Ok(tree) => tree,
            Err(error) => {
                println!("{test}: skipped, not allowed to make cgroups: {error}");
                return None;
            }
        };
        tree.use_legacy(&legacy, &below);
        let rig = Rig { tree };
        if rig.tree.offer().usable_legacy().is_empty() {
            println!("{test}: this machine has no controllers of cgroup v1");
            let plan = Plan::new(&limits(), rig.tree.offer(), Occasion::New);
            assert!(plan.legacy.is_empty() && plan.legacy_attributes.is_empty());
            return None;
        }
        Some(Self { rig, legacy, below })
    }

    fn folder(&self, subsystem: Subsystem, path: &CgroupPath) -> Option<PathBuf> {
        let mut places = self.legacy.places.iter();
        let place = places.find(|place| place.subsystems.contains(subsystem))?;
        let root = place.folder.join(self.below.as_str());
        Some(root.join(path.as_str()))
    }

    /// What the kernel says, where it has this controller to say it.
    #[track_caller]
    fn says(&self, subsystem: Subsystem, path: &CgroupPath, file: &str, wanted: &str) {
        let usable = self.rig.tree.offer().usable_legacy();
        if let Some(folder) = self
            .folder(subsystem, path)
            .filter(|_| usable.contains(subsystem))
        {
            let text = std::fs::read_to_string(folder.join(file));
            let text = text.unwrap_or_else(|error| panic!("{}/{file}: {error}", folder.display()));
            assert_eq!(text.trim_end(), wanted, "{file}");
        }
    }

    /// Gives a group these limits; everything is taken.
    #[track_caller]
    fn limit(&self, path: &CgroupPath, resources: &Resources, occasion: Occasion) {
        self.rig.tree.create(path).unwrap();
        let plan = Plan::new(resources, self.rig.tree.offer(), occasion);
        let refused = self.rig.tree.limit(path, &plan, occasion).unwrap();
        assert_eq!(refused, []);
    }

    /// In which of its hierarchies a group is.
    fn groups(&self, path: &CgroupPath) -> Subsystems {
        let all = Subsystem::ALL.into_iter();
        all.filter(|one| {
            self.folder(*one, path)
                .is_some_and(|folder| folder.exists())
        })
        .collect()
    }

    fn end(self, mut children: Vec<Child>) {
        let root = CgroupPath::root();
        self.rig.tree.kill(&root).unwrap();
        for child in &mut children {
            child.wait().unwrap();
        }
        self.rig.wait_populated(&root, false);
        for unit in ["a.service", "b.service", "a.slice"] {
            self.rig.tree.remove(&place(unit)).unwrap();
        }
        assert!(
            self.groups(&root).is_empty(),
            "groups are left: {:?}",
            self.groups(&root)
        );
    }
}

impl Drop for LegacyRig {
    fn drop(&mut self) {
        // A test that failed may have left groups; the tree's are removed by the rig.
        let root = CgroupPath::root();
        let _ = self.rig.tree.kill(&root);
        for one in Subsystem::ALL {
            let _ = self.folder(one, &root).map(|folder| sweep(&folder));
        }
    }
}

fn sweep(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sweep(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(folder);
}

macro_rules! rig {
    ($name:literal) => {
        match LegacyRig::new($name) {
            Some(rig) => rig,
            None => return,
        }
    };
}

fn memory(max: u64, swap: u64) -> MemoryLimits {
    MemoryLimits {
        max: Some(Amount::Exactly(max)),
        swap_max: Some(Amount::Exactly(swap)),
        ..MemoryLimits::default()
    }
}

fn limits() -> Resources {
    Resources {
        cpu_share: NonZeroU16::new(50).map(CpuShare::Weight),
        cpu_quota: Some(CpuQuota {
            per_second: Some(900_000),
            period: None,
        }),
        cpus: "0".into(),
        memory: memory(64 << 20, 0),
        tasks_max: Some(Amount::Exactly(20)),
        io: IoLimits {
            weight: NonZeroU16::new(200),
            devices: Vec::new(),
        },
        ..Resources::default()
    }
}

fn tasks() -> Resources {
    Resources {
        tasks_max: Some(Amount::Exactly(20)),
        ..Resources::default()
    }
}

fn sleeper() -> &'static str {
    "exec sleep 1000"
}

#[test]
fn limits_of_the_first_version_are_what_the_kernel_says() {
    let rig = rig!("limits_of_the_first_version_are_what_the_kernel_says");
    let unit = place("a.slice/x.service");
    // The slices above are made with it, a set of processors of which takes nobody unless it has some.
    rig.limit(&unit, &limits(), Occasion::New);
    let child = rig.rig.run(&unit, sleeper());
    rig.says(Subsystem::Cpu, &unit, "cpu.shares", "512");
    rig.says(Subsystem::Cpu, &unit, "cpu.cfs_quota_us", "90000");
    rig.says(Subsystem::Cpu, &unit, "cpu.cfs_period_us", "100000");
    rig.says(Subsystem::Cpuset, &unit, "cpuset.cpus", "0");
    let bytes = (64u64 << 20).to_string();
    rig.says(Subsystem::Memory, &unit, "memory.limit_in_bytes", &bytes);
    rig.says(
        Subsystem::Memory,
        &unit,
        "memory.memsw.limit_in_bytes",
        &bytes,
    );
    rig.says(Subsystem::Pids, &unit, "pids.max", "20");
    let pid = child.id().to_string();
    for one in rig.rig.tree.offer().usable_legacy().iter() {
        rig.says(one, &unit, "cgroup.procs", &pid);
    }
    // Raised and lowered, both at once and in any order, while it is in use.
    for (max, swap) in [(256u64, 0), (32, 16), (32, 0), (128, 64)] {
        let resources = Resources {
            memory: memory(max << 20, swap << 20),
            ..limits()
        };
        rig.limit(&unit, &resources, Occasion::Change);
        let (max, both) = (max << 20, (max + swap) << 20);
        let file = "memory.limit_in_bytes";
        rig.says(Subsystem::Memory, &unit, file, &max.to_string());
        let file = "memory.memsw.limit_in_bytes";
        rig.says(Subsystem::Memory, &unit, file, &both.to_string());
    }
    // What is not asked for any more goes back to what a new group has.
    rig.limit(&unit, &Resources::default(), Occasion::Change);
    rig.says(Subsystem::Cpu, &unit, "cpu.shares", "1024");
    rig.says(Subsystem::Cpu, &unit, "cpu.cfs_quota_us", "-1");
    rig.says(Subsystem::Pids, &unit, "pids.max", "max");
    let unlimited = "9223372036854771712";
    let file = "memory.memsw.limit_in_bytes";
    rig.says(Subsystem::Memory, &unit, "memory.limit_in_bytes", unlimited);
    rig.says(Subsystem::Memory, &unit, file, unlimited);
    if let Some(folder) = rig.folder(Subsystem::Cpuset, &unit) {
        let read =
            |folder: &std::path::Path| std::fs::read_to_string(folder.join("cpuset.cpus")).unwrap();
        assert_eq!(read(&folder), read(folder.parent().unwrap()));
    }
    rig.end(vec![child]);
}

#[test]
fn only_those_that_ask_have_groups_of_the_first_version() {
    let rig = rig!("only_those_that_ask_have_groups_of_the_first_version");
    let tree = &rig.rig.tree;
    let (asks, plain) = (place("a.slice/x.service"), place("a.slice/y.service"));
    rig.limit(&plain, &Resources::default(), Occasion::New);
    assert!(tree.joins(&plain).unwrap().is_empty());
    rig.limit(&asks, &tasks(), Occasion::New);
    let usable = tree.offer().usable_legacy();
    if usable.contains(Subsystem::Pids) {
        assert_eq!(tree.joins(&asks).unwrap().len(), 1);
        assert_eq!(
            tree.offer().legacy.within(rig.groups(&asks)),
            rig.groups(&asks)
        );
    }
    assert!(rig.groups(&plain).is_empty());
    // Those that share something with one that has a weight have one too, also if they ran before.
    let child = rig.rig.run(&plain, sleeper());
    let weight = Resources {
        cpu_share: NonZeroU16::new(50).map(CpuShare::Weight),
        ..tasks()
    };
    rig.limit(&asks, &weight, Occasion::Change);
    if usable.contains(Subsystem::Cpu) {
        rig.says(Subsystem::Cpu, &asks, "cpu.shares", "512");
        rig.says(Subsystem::Cpu, &plain, "cpu.shares", "1024");
        rig.says(
            Subsystem::Cpu,
            &plain,
            "cgroup.procs",
            &child.id().to_string(),
        );
        let later = place("a.slice/z.service");
        rig.limit(&later, &Resources::default(), Occasion::New);
        assert!(rig.groups(&later).contains(Subsystem::Cpu));
    }
    tree.remove(&asks).unwrap();
    assert!(rig.groups(&asks).is_empty());
    rig.end(vec![child]);
}

#[test]
fn a_limit_holds_for_those_that_run_but_not_for_whom_a_delegate_moved() {
    let rig = rig!("a_limit_holds_for_those_that_run_but_not_for_whom_a_delegate_moved");
    let tree = &rig.rig.tree;
    if !tree.offer().usable_legacy().contains(Subsystem::Pids) {
        println!("this machine does not count tasks by cgroup v1");
        return rig.end(Vec::new());
    }
    let unit = place("a.service");
    let (stays, moved) = (
        rig.rig.run(&unit, "sleep 1000 & exec sleep 1000"),
        rig.rig.run(&unit, sleeper()),
    );
    // So that the way to the unit's group is the manager's; what is below it is not.
    rig.limit(&place("b.service"), &tasks(), Occasion::New);
    let delegated = rig.folder(Subsystem::Pids, &place("a.service/container"));
    let delegated = delegated.unwrap();
    std::fs::create_dir_all(&delegated).unwrap();
    let procs = delegated.join("cgroup.procs");
    std::fs::write(&procs, moved.id().to_string()).unwrap();
    wait_for("three processes", || {
        tree.processes(&unit).unwrap().len() == 3
    });
    rig.limit(&unit, &tasks(), Occasion::Change);
    let own = rig.folder(Subsystem::Pids, &unit).unwrap();
    let read =
        |folder: &std::path::Path| std::fs::read_to_string(folder.join("cgroup.procs")).unwrap();
    assert_eq!(read(&own).lines().count(), 2);
    assert_eq!(read(&delegated).trim(), moved.id().to_string());
    assert_eq!(tree.usage(&unit).unwrap().tasks, Some(3));
    assert_eq!(tree.refusals(&unit).tasks, Some(0));
    rig.end(vec![stays, moved]);
}

#[test]
fn groups_of_the_first_version_are_found_again_or_removed() {
    let rig = rig!("groups_of_the_first_version_are_found_again_or_removed");
    let (stays, goes) = (place("a.slice/x.service"), place("b.service"));
    let child = rig.rig.run(&stays, sleeper());
    rig.limit(&stays, &tasks(), Occasion::Change);
    rig.limit(&goes, &tasks(), Occasion::New);
    // Somebody else's, with a name that could be ours.
    let foreign = rig.folder(Subsystem::Pids, &place("other.service"));
    for folder in foreign.iter() {
        std::fs::create_dir(folder).unwrap();
    }
    // The manager dies between the removal of a group and that of its twins.
    std::fs::remove_dir(rig.rig.tree.folder(&goes).unwrap()).unwrap();
    let mut again = Tree::open(&Hierarchy::detect().unwrap(), &rig.below).unwrap();
    again.use_legacy(&rig.legacy, &rig.below);
    assert!(rig.groups(&goes).is_empty());
    assert_eq!(
        again.joins(&stays).unwrap().len(),
        rig.rig.tree.joins(&stays).unwrap().len()
    );
    rig.says(Subsystem::Pids, &stays, "pids.max", "20");
    for folder in foreign.iter() {
        assert!(folder.exists(), "{}", folder.display());
        std::fs::remove_dir(folder).unwrap();
    }
    rig.end(vec![child]);
}

#[test]
fn groups_of_others_are_not_limited() {
    let rig = rig!("groups_of_others_are_not_limited");
    let unit = place("a.service");
    let mut stranger = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    if let Some(folder) = rig.folder(Subsystem::Pids, &unit).filter(|_| {
        rig.rig
            .tree
            .offer()
            .usable_legacy()
            .contains(Subsystem::Pids)
    }) {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup.procs"), stranger.id().to_string()).unwrap();
        let plan = Plan::new(&tasks(), rig.rig.tree.offer(), Occasion::New);
        rig.rig.tree.create(&unit).unwrap();
        let refused = rig.rig.tree.limit(&unit, &plan, Occasion::New).unwrap();
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let expected = "TasksMax: its v1 group for pids is there and is not the manager's";
        assert_eq!(refused, [expected]);
        rig.says(Subsystem::Pids, &unit, "pids.max", "max");
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn memory_that_runs_out_rings_and_is_counted() {
    let rig = rig!("memory_that_runs_out_rings_and_is_counted");
    let tree = &rig.rig.tree;
    let unit = place("a.service");
    if !tree.offer().usable_legacy().contains(Subsystem::Memory) {
        println!("this machine does not limit memory by cgroup v1");
        return rig.end(Vec::new());
    }
    let resources = Resources {
        memory: memory(16 << 20, 0),
        ..Resources::default()
    };
    rig.limit(&unit, &resources, Occasion::New);
    assert!(tree.memory_alarm(&place("b.service")).unwrap().is_none());
    let alarm = tree.memory_alarm(&unit).unwrap().unwrap();
    assert_eq!(tree.oom_kills(&unit), Some(0));
    let hog = "/usr/bin/head -c 67108864 /dev/zero | /usr/bin/tail >/dev/null; exec sleep 1000";
    let child = rig.rig.run(&unit, hog);
    wait_for("the kernel ends the hog", || {
        tree.oom_kills(&unit) > Some(0)
    });
    let mut count = [0; 8];
    rustix::io::read(&alarm, &mut count).unwrap();
    let usage = tree.usage(&unit).unwrap();
    assert!(
        matches!(usage.memory, Some(Memory::Charged(_))),
        "{usage:?}"
    );
    assert!(usage.memory_peak > Some(15 << 20) && usage.cpu_usec.is_some());
    assert!(tree.refusals(&unit).killed > Some(0));
    rig.end(vec![child]);
}

/// Where there is no cgroup v2, devices are refused by a controller, and processor time is counted by one.
#[test]
fn a_machine_with_the_first_version_alone_refuses_devices_and_counts_time() {
    let test = "a_machine_with_the_first_version_alone_refuses_devices_and_counts_time";
    let Ok(hierarchy) = Hierarchy::at(std::path::Path::new("/sys/fs/cgroup/systemd")) else {
        println!("{test}: skipped, this machine has no named v1 hierarchy");
        return;
    };
    let Some(rig) = LegacyRig::of(test, &hierarchy) else {
        return;
    };
    assert_eq!(rig.rig.tree.mode(), Mode::Legacy);
    let (unit, usable) = (place("a.service"), rig.rig.tree.offer().usable_legacy());
    let null = DeviceRule {
        kind: DeviceKind::Character,
        major: Some(1),
        minor: Some(3),
        access: DeviceAccess {
            read: true,
            write: true,
            mknod: false,
        },
    };
    let resources = Resources {
        devices: Some(DeviceFilter { rules: vec![null] }),
        counts_asked_for: muster_cgroup::Controllers::parse("cpu"),
        ..Resources::default()
    };
    rig.limit(&unit, &resources, Occasion::New);
    let ends_with = |script: &str| {
        let mut child = rig.rig.run(&unit, script);
        child.wait().unwrap().code()
    };
    if usable.contains(Subsystem::Devices) {
        assert_eq!(ends_with(": >/dev/null && ! (: </dev/zero)"), Some(0));
        rig.limit(&unit, &Resources::default(), Occasion::Change);
        assert_eq!(ends_with(": </dev/zero"), Some(0));
    }
    if usable.contains(Subsystem::Cpuacct) {
        let usage = rig.rig.tree.usage(&unit).unwrap();
        assert!(usage.cpu_usec > Some(0), "{usage:?}");
    }
    rig.end(Vec::new());
}

/// A process that joins by itself is in every hierarchy; see also the tests of whoever starts processes.
#[test]
fn the_files_to_join_by_are_those_of_the_unit() {
    let rig = rig!("the_files_to_join_by_are_those_of_the_unit");
    let unit = place("a.slice/x.service");
    rig.limit(&unit, &limits(), Occasion::New);
    let mut child = Command::new("/bin/sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for file in rig.rig.tree.joins(&unit).unwrap() {
        rustix::io::write(&file, pid_of(&child).to_string().as_bytes()).unwrap();
    }
    let pid = child.id().to_string();
    for one in rig.rig.tree.offer().usable_legacy().iter() {
        rig.says(one, &unit, "cgroup.procs", &pid);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    rig.end(Vec::new());
}
