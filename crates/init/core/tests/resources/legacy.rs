//! On a machine with controllers of cgroup v1 beside a v2 tree, as distributions had it for years: units are held to their limits
//! there. Where the host has none, it is seen that limits are given by v2 or named.

use std::path::PathBuf;
use std::time::Duration;

use muster_lab::machine::{Build, Machine};
use muster_lab::{muster, poll_until};

const TIME: Duration = Duration::from_secs(60);

const UNITS: &[(&str, &str)] = &[
    ("lab.slice", "[Slice]\nTasksMax=50\n"),
    (
        "limits.service",
        "[Service]\nExecStart=/bin/sleep 1000\nExecStartPost=/bin/sh -c 'cat /proc/self/cgroup >/run/control'\n\
         CPUWeight=50\nCPUQuota=90%\nMemoryMax=64M\nMemorySwapMax=0\nMemoryLow=8M\nTasksMax=64\nIOAccounting=yes\n",
    ),
    // Through the helper, which sets more up.
    (
        "sandboxed.service",
        "[Service]\nExecStart=/bin/sleep 1000\nTasksMax=64\nPrivateTmp=yes\nProtectSystem=strict\n",
    ),
    (
        "inside.service",
        "[Service]\nSlice=lab.slice\nExecStart=/bin/sleep 1000\n",
    ),
    ("plain.service", "[Service]\nExecStart=/bin/sleep 1000\n"),
    (
        "bomb.service",
        "[Service]\nTasksMax=32\nTimeoutStopSec=2\nExecStart=/bin/sh -c 'sh /lab/bomb & exec sleep 1000'\n",
    ),
    (
        "hog.service",
        "[Service]\nType=oneshot\nMemoryMax=16M\nMemorySwapMax=0\n\
         ExecStart=/bin/sh -c '/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail >/dev/null'\n",
    ),
    // The process that is ended is not the one that the service stands or falls with.
    (
        "hog-stop.service",
        "[Service]\nMemoryMax=16M\nMemorySwapMax=0\nOOMPolicy=stop\n\
         ExecStart=/bin/sh -c '(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail >/dev/null) & exec /bin/sleep 1000'\n",
    ),
    (
        "hog-continue.service",
        "[Service]\nMemoryMax=16M\nMemorySwapMax=0\nOOMPolicy=continue\n\
         ExecStart=/bin/sh -c '(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail >/dev/null) & exec /bin/sleep 1000'\n",
    ),
    (
        "closed.service",
        "[Service]\nType=oneshot\nDevicePolicy=closed\nDeviceAllow=/dev/full r\n\
         ExecStart=/bin/sh -c ': </dev/zero && : >/dev/null && : </dev/full'\nExecStart=/bin/sh -c 'mknod /run/node c 1 11; [ ! -e /run/node ]'\n",
    ),
];
const BOMB: &str = "while :; do sh /lab/bomb & done\n";

/// A machine, and its groups as the host sees them.
struct Rig {
    machine: Machine,
    /// By controller.
    roots: Vec<(String, PathBuf)>,
}

impl Rig {
    fn boot() -> Self {
        let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
        let builder = muster::machine(&programs).hybrid_cgroups();
        let builder = UNITS
            .iter()
            .fold(builder, |builder, (name, text)| builder.unit(*name, *text));
        let builder = builder.file("/lab/bomb", BOMB, 0o644);
        let machine = muster::boot(&builder, TIME).unwrap();
        let init = machine.run(["cat", "/proc/1/cgroup"]).unwrap().stdout;
        let names = ["cpu", "memory", "pids", "blkio", "devices"];
        let has = |name: &&str| {
            let mut lines = init.lines().filter_map(|line| line.split(':').nth(1));
            lines.any(|list| list.split(',').any(|one| one == *name))
                && machine
                    .run(["test", "-d", &format!("/sys/fs/cgroup/{name}")])
                    .is_ok_and(|done| done.status.success())
        };
        let roots = names.into_iter().filter(has);
        let roots = roots
            .map(|name| (name.to_owned(), PathBuf::from("/sys/fs/cgroup").join(name)))
            .collect();
        Self { machine, roots }
    }

    fn has(&self, controller: &str) -> bool {
        self.roots.iter().any(|(name, _)| name == controller)
    }

    /// A file of a unit's group; nothing if it has none.
    fn read(&self, controller: &str, group: &str, file: &str) -> String {
        let root = self.roots.iter().find(|(name, _)| name == controller);
        let Some((_, root)) = root else {
            return String::new();
        };
        let path = root.join(group).join(file);
        let read = self.machine.run(["cat", &path.to_string_lossy()]).unwrap();
        read.stdout.trim_end().to_owned()
    }

    #[track_caller]
    fn says(&self, controller: &str, group: &str, file: &str, wanted: &str) {
        if self.has(controller) {
            assert_eq!(self.read(controller, group, file), wanted, "{group}/{file}");
        }
    }

    fn sctl(&self, words: &[&str]) -> String {
        let output = self.machine.run(["sctl"].iter().chain(words)).unwrap();
        output.stdout
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.machine.run(["sctl"].iter().chain(words)).unwrap();
        let (stdout, stderr) = (&output.stdout, &output.stderr);
        assert!(
            output.status.success(),
            "sctl {words:?}: {}\n{stdout}{stderr}",
            output.status
        );
        output.stdout
    }

    fn property(&self, unit: &str, name: &str) -> String {
        let shown = self.ok(&["show", "--value", "-p", name, unit]);
        shown.trim_end().to_owned()
    }

    /// All groups of units in hierarchies of cgroup v1.
    fn groups(&self) -> String {
        let find = "for root in /sys/fs/cgroup/*; do [ $root = /sys/fs/cgroup/unified ] || \
                    find $root -mindepth 1 -type d -name '*.s*'; done";
        self.machine.run(["sh", "-c", find]).unwrap().stdout
    }
}

impl Rig {
    /// Waits until no unit of these tests has a group. Others that run beside one that had a share keep theirs.
    #[track_caller]
    fn wait_gone(&self) {
        poll_until(TIME, "groups of units are gone", || {
            let groups = self.groups();
            let mut units = UNITS.iter().filter(|(name, _)| name.ends_with(".service"));
            !units.any(|(name, _)| groups.contains(name))
        });
    }
}

/// Where all controllers are in the v2 tree, other tests see to it; here it is only seen that this is so.
fn is_elsewhere(rig: &Rig) -> bool {
    let is_elsewhere = rig.roots.is_empty();
    if is_elsewhere {
        println!("this host has no controllers of cgroup v1: limits are given by v2 or named");
        rig.ok(&["start", "limits.service"]);
        let offered = rig
            .machine
            .run(["cat", "/sys/fs/cgroup/cgroup.controllers"]);
        let offered = offered.unwrap().stdout;
        let status = rig.ok(&["status", "limits.service"]);
        for (controller, setting) in [("cpu", "CPUWeight"), ("pids", "TasksMax")] {
            let is_offered = offered.split_whitespace().any(|name| name == controller);
            let is_named = status.contains(&format!("Not applied: {setting}:"));
            assert_eq!(is_named, !is_offered, "{controller}: {status}");
        }
    }
    is_elsewhere
}

#[test]
fn units_are_held_to_their_limits_by_cgroup_v1() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    if is_elsewhere(&rig) {
        return;
    }
    // Nobody has asked for anything yet.
    rig.ok(&["start", "plain.service"]);
    assert_eq!(rig.groups(), "");

    rig.ok(&["start", "limits.service", "sandboxed.service"]);
    let group = "system.slice/limits.service";
    rig.says("cpu", group, "cpu.shares", "512");
    rig.says("cpu", group, "cpu.cfs_quota_us", "90000");
    rig.says("memory", group, "memory.limit_in_bytes", "67108864");
    rig.says("memory", group, "memory.memsw.limit_in_bytes", "67108864");
    rig.says("pids", group, "pids.max", "64");
    let main = rig.property("limits.service", "MainPID");
    for controller in ["cpu", "memory", "pids", "blkio"] {
        rig.says(controller, group, "cgroup.procs", &main);
    }
    let sandboxed = rig.property("sandboxed.service", "MainPID");
    let place = "system.slice/sandboxed.service";
    rig.says("pids", place, "cgroup.procs", &sandboxed);
    // Commands beside the service are in the same groups.
    let control = rig.machine.run(["cat", "/run/control"]).unwrap().stdout;
    for (controller, _) in &rig.roots {
        let is_in = control
            .lines()
            .any(|line| line.contains(&format!("{controller}:")) && line.ends_with(group));
        assert_eq!(is_in, controller != "devices", "{controller}: {control}");
    }
    // Accounts are the kernel's.
    let status = rig.ok(&["status", "limits.service"]);
    if rig.has("pids") {
        assert!(status.contains("Tasks: 1 (limit: 64)\n"), "{status}");
    }
    if rig.has("memory") {
        assert!(status.contains("(max: 64.0M"), "{status}");
        assert!(
            status.contains("Not applied: MemoryLow: cgroup v1"),
            "{status}"
        );
        let peak = rig.property("limits.service", "MemoryPeak");
        assert!(peak.parse::<u64>().is_ok_and(|peak| peak > 0), "{peak}");
    }
    assert!(!status.contains("Not applied: CPU"), "{status}");
    // Whoever shares processors with one that has a weight competes as a group.
    rig.says("cpu", "system.slice/plain.service", "cpu.shares", "1024");

    // Changed while it runs, and taken back; given to one that had nothing.
    let change = ["set-property", "--runtime", "limits.service"];
    rig.ok(&[
        &change[..],
        &["MemoryMax=32M", "TasksMax=infinity", "CPUQuota="],
    ]
    .concat());
    rig.says("memory", group, "memory.limit_in_bytes", "33554432");
    rig.says("pids", group, "pids.max", "max");
    rig.says("cpu", group, "cpu.cfs_quota_us", "-1");
    rig.ok(&["set-property", "--runtime", "plain.service", "TasksMax=7"]);
    rig.says("pids", "system.slice/plain.service", "pids.max", "7");
    let main = rig.property("plain.service", "MainPID");
    rig.says("pids", "system.slice/plain.service", "cgroup.procs", &main);

    // A slice holds those that ask for nothing.
    rig.ok(&["start", "inside.service"]);
    rig.says("pids", "lab.slice", "pids.max", "50");
    let main = rig.property("inside.service", "MainPID");
    rig.says("pids", "lab.slice/inside.service", "cgroup.procs", &main);

    rig.ok(&["start", "closed.service"]);

    // All of it goes with the units.
    rig.ok(&[
        "stop",
        "limits.service",
        "sandboxed.service",
        "plain.service",
        "inside.service",
    ]);
    rig.wait_gone();
}

#[test]
fn a_fork_bomb_and_a_hog_are_contained_by_cgroup_v1() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    if is_elsewhere(&rig) {
        return;
    }
    if rig.has("pids") {
        rig.ok(&["start", "bomb.service"]);
        let group = "system.slice/bomb.service";
        poll_until(TIME, "tasks are refused", || {
            rig.read("pids", group, "pids.events") != "max 0"
        });
        let count: u64 = rig.read("pids", group, "pids.current").parse().unwrap();
        assert!(count <= 32, "{count}");
        let status = rig.ok(&["status", "bomb.service"]);
        assert!(status.contains("Reached: TasksMax=32 ("), "{status}");
        rig.ok(&["stop", "bomb.service"]);
        let bombs = rig.machine.run(["pgrep", "-f", "lab/bomb"]).unwrap();
        assert_eq!(bombs.stdout, "");
    }
    if rig.has("memory") {
        rig.sctl(&["start", "hog.service"]);
        assert_eq!(rig.property("hog.service", "Result"), "oom-kill");
        let status = rig.sctl(&["status", "hog.service"]);
        assert!(status.contains("oom-kill"), "{status}");
        rig.ok(&["start", "hog-stop.service", "hog-continue.service"]);
        poll_until(TIME, "the service ends with its process", || {
            rig.property("hog-stop.service", "ActiveState") == "failed"
        });
        assert_eq!(rig.property("hog-stop.service", "Result"), "oom-kill");
        let told = "Reached: MemoryMax=16777216 (1 processes were ended for lack of memory)\n";
        poll_until(TIME, "the one that goes on says so", || {
            rig.sctl(&["status", "hog-continue.service"]).contains(told)
        });
        assert_eq!(
            rig.property("hog-continue.service", "ActiveState"),
            "active"
        );
        rig.ok(&["stop", "hog-continue.service"]);
    }
    rig.wait_gone();
}

#[test]
fn groups_of_cgroup_v1_outlive_the_manager_and_its_upgrade() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    if is_elsewhere(&rig) {
        return;
    }
    rig.ok(&["start", "limits.service"]);
    let before = rig.groups();
    let main = rig.property("limits.service", "MainPID");
    let group = "system.slice/limits.service";
    let core = muster::manager(&rig.machine).unwrap().unwrap();
    let pid = rustix::process::Pid::from_raw(core.host_pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    poll_until(TIME, "another manager runs", || {
        muster::manager(&rig.machine)
            .unwrap()
            .is_some_and(|now| now.host_pid != core.host_pid)
    });
    assert_eq!(rig.groups(), before);
    rig.ok(&["daemon-reexec"]);
    rig.ok(&["is-active", "limits.service"]);
    assert_eq!(rig.groups(), before);
    rig.says("pids", group, "cgroup.procs", &main);
    rig.says("pids", group, "pids.max", "64");
    // It is still known: what changes is written, what ends is removed.
    rig.ok(&["set-property", "--runtime", "limits.service", "TasksMax=9"]);
    rig.says("pids", group, "pids.max", "9");
    rig.ok(&["stop", "limits.service"]);
    rig.wait_gone();
}
