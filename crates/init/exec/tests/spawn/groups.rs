//! Processes in cgroups of their own.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_cgroup::{
    Amount, CgroupPath, CpuQuota, Hierarchy, Legacy, Mode as TreeMode, Occasion, Plan, Resources,
    SpawnTarget, Tree,
};
use muster_exec::{ExecContext, Launch};

use crate::rig::{output, program, shell, spawn, wait};

struct Rig {
    tree: Tree,
}

impl Rig {
    fn new(test: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-exec-{}-{number}", std::process::id());
        let place = CgroupPath::parse(&name).unwrap();
        let mut tree = Tree::open(&Hierarchy::detect().unwrap(), &place).ok();
        if let Some(tree) = &mut tree {
            tree.use_legacy(&Legacy::detect().unwrap(), &place);
        }
        let tree = tree.filter(|tree| tree.mode() != TreeMode::Sessions);
        if tree.is_none() {
            println!("{test}: skipped, no cgroups can be made");
        }
        Some(Self { tree: tree? })
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let root = CgroupPath::root();
        let end = Instant::now() + Duration::from_secs(10);
        while self.tree.is_populated(&root).unwrap_or(false) && Instant::now() < end {
            let _ = self.tree.kill(&root);
            std::thread::yield_now();
        }
        let _ = self.tree.remove(&unit());
        let removed = std::fs::remove_dir(self.tree.folder(&root).unwrap());
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

fn unit() -> CgroupPath {
    CgroupPath::parse("x.service").unwrap()
}

fn sleeper() -> ExecContext {
    ExecContext {
        argv: vec!["sleep".into(), "1000".into()],
        ..program("/usr/bin/sleep")
    }
}

fn wait_empty(tree: &Tree) {
    let end = Instant::now() + Duration::from_secs(10);
    while tree.is_populated(&unit()).unwrap() {
        assert!(Instant::now() < end, "processes are left");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts something in the group, sees that it is there, and ends it.
fn round(tree: &Tree) {
    let target = tree.target(&unit()).unwrap();
    let launch = Launch {
        cgroup: Some(&target),
        ..Launch::default()
    };
    let spawned = spawn(&sleeper(), &[], &launch).unwrap();
    let inside = tree.processes(&unit()).unwrap();
    assert_eq!(inside, [spawned.pid], "it is in its group");
    tree.kill(&unit()).unwrap();
    assert_eq!(wait(spawned.pid).terminating_signal(), Some(libc::SIGKILL));
    wait_empty(tree);
}

/// The kernel kills what is born in a group that was killed before; every round but the first would end at once.
#[test]
fn a_group_that_was_killed_can_be_used_again() {
    let Some(rig) = Rig::new("a_group_that_was_killed_can_be_used_again") else {
        return;
    };
    for _ in 0..3 {
        round(&rig.tree);
    }
}

#[test]
fn a_process_is_in_its_group_before_it_runs() {
    let Some(rig) = Rig::new("a_process_is_in_its_group_before_it_runs") else {
        return;
    };
    let target = rig.tree.target(&unit()).unwrap();
    let SpawnTarget::Born(folder) = target else {
        println!("a_process_is_in_its_group_before_it_runs: skipped, no cgroup v2");
        return;
    };
    let procs = std::fs::OpenOptions::new()
        .write(true)
        .open(rig.tree.folder(&unit()).unwrap().join("cgroup.procs"))
        .unwrap();
    for target in [SpawnTarget::Born(folder), SpawnTarget::Joins(procs.into())] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let launch = Launch {
            cgroup: Some(&target),
            ..Launch::default()
        };
        let context = shell("grep '^0:' /proc/self/cgroup");
        let spawned = spawn(&context, &[writer.as_fd()], &launch).unwrap();
        drop(writer);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
        assert!(
            text.trim_end().ends_with("/x.service"),
            "{target:?}: {text}"
        );
        assert_eq!(wait(spawned.pid).exit_status(), Some(0));
    }
    wait_empty(&rig.tree);
}

/// Limits that take groups of cgroup v1 hold for the first program that is executed, however it is started.
#[test]
fn a_process_is_in_its_groups_of_the_first_version_before_it_runs() {
    let test = "a_process_is_in_its_groups_of_the_first_version_before_it_runs";
    let Some(rig) = Rig::new(test) else {
        return;
    };
    let resources = Resources {
        cpu_quota: Some(CpuQuota {
            per_second: Some(500_000),
            period: None,
        }),
        tasks_max: Some(Amount::Exactly(30)),
        ..Resources::default()
    };
    let plan = Plan::new(&resources, rig.tree.offer(), Occasion::New);
    rig.tree.create(&unit()).unwrap();
    let refused = rig.tree.limit(&unit(), &plan, Occasion::New).unwrap();
    assert_eq!(refused, []);
    let joins = rig.tree.joins(&unit()).unwrap();
    if joins.is_empty() {
        println!("{test}: this machine has no such controllers, and so nothing to join");
        assert!(plan.legacy.is_empty());
    }
    let target = rig.tree.target(&unit()).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let launch = Launch {
        cgroup: Some(&target),
        joins: &joins,
        ..Launch::default()
    };
    let context = shell("cat /proc/self/cgroup; ls -l /proc/self/fd | grep -c cgroup.procs");
    let spawned = spawn(&context, &[writer.as_fd()], &launch).unwrap();
    drop(writer);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    let inside = text.lines().filter(|line| line.ends_with("/x.service"));
    // In that of the tree too; and nothing of it is left open.
    assert_eq!(inside.count(), joins.len() + 1, "{text}");
    assert_eq!(text.lines().last(), Some("0"), "{text}");
    wait(spawned.pid);
    wait_empty(&rig.tree);
}

#[test]
fn without_a_group_a_process_stays_where_its_parent_is() {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    assert_eq!(output(&shell("cat /proc/self/cgroup")), own);
}
