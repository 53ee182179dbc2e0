//! Trees on the machine's own hierarchy, each below a group of the test's own.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod delegate;
mod guest;
mod legacy;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_cgroup::{
    CgroupError, CgroupPath, Hierarchy, Memory, Mode, Pid, Signal, SpawnTarget, Tree,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// A tree below a group of its own, gone with everything in it when it is dropped.
struct Rig {
    tree: Tree,
}

impl Rig {
    /// `None`, with a line that says so, where the machine has no cgroup v2 that can be written.
    fn new(test: &str) -> Option<Self> {
        let number = number();
        let hierarchy = Hierarchy::detect().unwrap();
        let place = format!("muster-test-{}-{number}", std::process::id());
        let place = CgroupPath::root().child(&place).unwrap();
        match Tree::open(&hierarchy, &place) {
            Ok(tree) if matches!(tree.mode(), Mode::Unified | Mode::Hybrid) => Some(Self { tree }),
            Ok(_) => {
                println!("{test}: skipped, there is no cgroup v2 on this machine");
                None
            }
            Err(error) => {
                println!("{test}: skipped, not allowed to make cgroups: {error}");
                None
            }
        }
    }

    /// Runs a shell script in a group.
    fn run(&self, path: &CgroupPath, script: &str) -> Child {
        self.tree.create(path).unwrap();
        // It waits for a line, which comes once it is where it belongs.
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.tree.attach(path, pid_of(&child)).unwrap();
        drop(child.stdin.take());
        child
    }

    fn wait_populated(&self, path: &CgroupPath, populated: bool) {
        wait_for(&format!("{path} populated: {populated}"), || {
            self.tree.is_populated(path).unwrap() == populated
        });
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let root = CgroupPath::root();
        let end = Instant::now() + PATIENCE;
        while self.tree.is_populated(&root).unwrap_or(false) && Instant::now() < end {
            let _ = self.tree.set_frozen(&root, false);
            let _ = self.tree.kill(&root);
            std::thread::yield_now();
        }
        for unit in [
            "a.service",
            "b.service",
            "a.slice",
            "init.scope",
            "box.scope",
        ] {
            let _ = self.tree.remove(&place(unit));
        }
        let folder = self.tree.folder(&root).unwrap();
        let removed = std::fs::remove_dir(&folder);
        if !std::thread::panicking() {
            removed.unwrap_or_else(|error| panic!("{} is left: {error}", folder.display()));
        }
    }
}

/// One that no other test of this process has.
fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn place(unit: &str) -> CgroupPath {
    CgroupPath::parse(unit).unwrap()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn name_of(pid: Pid) -> String {
    let file = format!("/proc/{}/comm", pid.as_raw_nonzero());
    let name = std::fs::read_to_string(file).unwrap_or_default();
    name.trim_end().to_owned()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

macro_rules! rig {
    ($name:literal) => {
        match Rig::new($name) {
            Some(rig) => rig,
            None => return,
        }
    };
}

mod hidden;

#[test]
fn making_and_removing_are_idempotent() {
    let rig = rig!("making_and_removing_are_idempotent");
    let deep = place("a.slice/a-b.slice/x.service");
    for _ in 0..2 {
        rig.tree.create(&deep).unwrap();
    }
    assert!(
        rig.tree
            .folder(&deep)
            .unwrap()
            .join("cgroup.procs")
            .exists()
    );
    assert!(rig.tree.events_file(&deep).unwrap().exists());
    for _ in 0..2 {
        rig.tree.remove(&place("a.slice")).unwrap();
    }
    assert!(!rig.tree.folder(&place("a.slice")).unwrap().exists());
    assert!(!rig.tree.is_populated(&deep).unwrap());
    assert!(rig.tree.processes(&deep).unwrap().is_empty());
    assert_eq!(rig.tree.signal(&deep, Signal::TERM, &[]).unwrap(), 0);
    rig.tree.kill(&deep).unwrap();
}

#[test]
fn what_has_processes_is_not_removed() {
    let rig = rig!("what_has_processes_is_not_removed");
    let unit = place("a.slice/x.service");
    let mut child = rig.run(&unit, "exec sleep 1000");
    let error = rig.tree.remove(&place("a.slice")).unwrap_err();
    assert!(
        matches!(&error, CgroupError::Busy { path } if *path == unit),
        "{error}"
    );
    rig.tree.kill(&unit).unwrap();
    rig.wait_populated(&unit, false);
    // A zombie does not keep a group alive.
    rig.tree.remove(&place("a.slice")).unwrap();
    child.wait().unwrap();
}

#[test]
fn signals_reach_members_and_nobody_else() {
    let rig = rig!("signals_reach_members_and_nobody_else");
    let (unit, sub) = (place("a.service"), place("a.service/payload"));
    let mut main = rig.run(&unit, "exec sleep 1000");
    let mut below = rig.run(&sub, "exec sleep 1000");
    let mut other = rig.run(&place("b.service"), "exec sleep 1000");
    let mut spared = rig.run(&unit, "exec sleep 1000");
    assert_eq!(
        rig.tree.processes(&unit).unwrap(),
        [pid_of(&main), pid_of(&spared), pid_of(&below)]
    );
    let sent = rig.tree.signal(&unit, Signal::TERM, &[pid_of(&spared)]);
    assert_eq!(sent.unwrap(), 2);
    assert!(spared.try_wait().unwrap().is_none());
    spared.kill().unwrap();
    spared.wait().unwrap();
    for child in [&mut main, &mut below] {
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(15)
        );
    }
    assert!(other.try_wait().unwrap().is_none());
    rig.tree.kill(&place("b.service")).unwrap();
    other.wait().unwrap();
}

#[test]
fn double_forks_and_new_sessions_do_not_escape_a_signal() {
    let rig = rig!("double_forks_and_new_sessions_do_not_escape_a_signal");
    let unit = place("a.service");
    let script = "for i in 1 2 3 4 5; do (setsid sh -c 'sleep 1000 & sleep 1000 & exit' &); done; exec sleep 1000";
    let mut child = rig.run(&unit, script);
    // Shells that are about to end, or to become what they run, are not the ones to count.
    wait_for("eleven processes that stay", || {
        let members = rig.tree.processes(&unit).unwrap();
        members.len() == 11 && members.iter().all(|pid| name_of(*pid) == "sleep")
    });
    assert_eq!(rig.tree.signal(&unit, Signal::TERM, &[]).unwrap(), 11);
    rig.wait_populated(&unit, false);
    child.wait().unwrap();
}

/// Each process of a chain starts the next in a session of its own and ends, for ever: a list of processes is out of date
/// before it is read.
#[test]
fn chains_that_never_stop_forking_are_ended_by_a_kill() {
    let rig = rig!("chains_that_never_stop_forking_are_ended_by_a_kill");
    let unit = place("a.service");
    let folder = std::env::temp_dir().join(format!("muster-chain-{}", std::process::id()));
    std::fs::write(&folder, format!("setsid sh {} &\n", folder.display())).unwrap();
    let chains = format!(
        "for i in 1 2 3 4 5 6 7 8; do sh {} ; done",
        folder.display()
    );
    let mut child = rig.run(&unit, &chains);
    child.wait().unwrap();
    assert!(rig.tree.is_populated(&unit).unwrap(), "the chains run");
    rig.tree.kill(&unit).unwrap();
    rig.wait_populated(&unit, false);
    std::fs::remove_file(&folder).unwrap();
    rig.tree.remove(&unit).unwrap();
}

#[test]
fn frozen_processes_stand_still_and_their_group_takes_no_other() {
    let rig = rig!("frozen_processes_stand_still_and_their_group_takes_no_other");
    let unit = place("a.slice/x.service");
    let mut child = rig.run(&unit, "while :; do :; done");
    let slice = place("a.slice");
    let refuses = |path: &CgroupPath| match rig.tree.target(path) {
        Err(CgroupError::Frozen { path }) => assert_eq!(path, slice),
        other => panic!("{other:?}"),
    };
    rig.tree.set_frozen(&slice, true).unwrap();
    // Whether or not it has come to stand still.
    refuses(&unit);
    assert!(rig.tree.wait_frozen(&slice, true, PATIENCE).unwrap());
    assert!(rig.tree.is_frozen(&unit).unwrap());
    let cpu = || rig.tree.usage(&unit).unwrap().cpu_usec.unwrap();
    let before = cpu();
    refuses(&unit);
    refuses(&place("a.slice/new.service"));
    assert!(
        !rig.tree
            .wait_frozen(&unit, false, Duration::from_millis(20))
            .unwrap()
    );
    assert_eq!(cpu(), before);
    rig.tree.set_frozen(&slice, false).unwrap();
    assert!(rig.tree.wait_frozen(&unit, false, PATIENCE).unwrap());
    wait_for("it runs again", || cpu() > before);
    // Also what is frozen can be killed.
    rig.tree.set_frozen(&slice, true).unwrap();
    rig.tree.kill(&slice).unwrap();
    rig.wait_populated(&unit, false);
    child.wait().unwrap();
}

#[test]
fn a_group_is_thawed_and_whoever_freezes_it_from_above_is_named() {
    let rig = rig!("a_group_is_thawed_and_whoever_freezes_it_from_above_is_named");
    let (slice, unit) = (place("a.slice"), place("a.slice/x.service"));
    let mut child = rig.run(&unit, "sleep 1000");
    assert_eq!(rig.tree.thaw(&unit).unwrap(), None);
    let freeze = |path| rig.tree.change_frozen(path, true, PATIENCE).unwrap();
    assert!(freeze(&unit) && freeze(&slice));
    assert_eq!(rig.tree.thaw(&unit).unwrap(), Some(slice.clone()));
    assert_eq!(rig.tree.frozen_at(&unit).unwrap(), Some(slice.clone()));
    assert_eq!(rig.tree.thaw(&slice).unwrap(), None);
    assert_eq!(rig.tree.frozen_at(&unit).unwrap(), None);
    rig.tree.kill(&slice).unwrap();
    child.wait().unwrap();
    assert_eq!(rig.tree.thaw(&place("gone.slice/x")).unwrap(), None);
}

#[test]
fn a_group_that_does_not_freeze_in_time_runs_on() {
    let rig = rig!("a_group_that_does_not_freeze_in_time_runs_on");
    let unit = place("a.service");
    // Each has to have its turn on a processor before it stands still.
    let busy = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait";
    let mut children: Vec<Child> = (0..8).map(|_| rig.run(&unit, busy)).collect();
    wait_for("all of them run", || {
        rig.tree.processes(&unit).unwrap().len() == 72
    });
    let changed = rig.tree.change_frozen(&unit, true, Duration::ZERO);
    assert!(!changed.unwrap());
    assert_eq!(rig.tree.frozen_at(&unit).unwrap(), None);
    rig.tree.target(&unit).unwrap();
    rig.tree.kill(&unit).unwrap();
    for child in &mut children {
        child.wait().unwrap();
    }
}

#[test]
fn usage_is_counted() {
    let rig = rig!("usage_is_counted");
    let unit = place("a.service");
    let mut child = rig.run(
        &unit,
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec sleep 1000",
    );
    // Memory that the shell has from before it was put there is not the group's; that of what it becomes is.
    wait_for("processor time and memory", || {
        let usage = rig.tree.usage(&unit).unwrap();
        usage.cpu_usec.unwrap() > 1000 && usage.memory.unwrap().bytes() > 10_000
    });
    let usage = rig.tree.usage(&unit).unwrap();
    assert_eq!(usage.tasks, Some(1));
    if rig.tree.mode() == Mode::Hybrid {
        assert!(matches!(usage.memory, Some(Memory::Resident(_))));
        assert_eq!(rig.tree.oom_kills(&unit), None);
    }
    rig.tree.kill(&unit).unwrap();
    child.wait().unwrap();
    rig.wait_populated(&unit, false);
    assert_eq!(rig.tree.usage(&unit).unwrap().tasks, Some(0));
}

#[test]
fn what_an_earlier_manager_left_is_found() {
    let mut rig = rig!("what_an_earlier_manager_left_is_found");
    let (unit, sub) = (place("a.slice/x.service"), place("a.slice/x.service/sub"));
    let mut children = [
        rig.run(&unit, "exec sleep 1000"),
        rig.run(&sub, "exec sleep 1000"),
        rig.run(&CgroupPath::root(), "exec sleep 1000"),
    ];
    rig.tree.create(&place("b.service")).unwrap();
    rig.tree.settle(&[pid_of(&children[2])]).unwrap();
    let found = rig.tree.leftovers().unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|left| (&left.path, left.processes.clone()))
        .collect();
    let expected = [
        (&unit, vec![pid_of(&children[0])]),
        (&sub, vec![pid_of(&children[1])]),
    ];
    assert_eq!(found, expected);
    rig.tree.kill(&CgroupPath::root()).unwrap();
    for child in &mut children {
        child.wait().unwrap();
    }
}

#[test]
fn attributes_are_written_by_name_and_only_inside() {
    let rig = rig!("attributes_are_written_by_name_and_only_inside");
    let unit = place("a.service");
    rig.tree.create(&unit).unwrap();
    rig.tree.set(&unit, "cgroup.max.depth", "3").unwrap();
    let file = rig.tree.folder(&unit).unwrap().join("cgroup.max.depth");
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), "3");
    let error = rig.tree.set(&unit, "../cgroup.max.depth", "3").unwrap_err();
    assert!(matches!(error, CgroupError::Unsupported { .. }), "{error}");
    let error = rig.tree.set(&unit, "no.such", "3").unwrap_err();
    assert!(error.to_string().contains("no.such"), "{error}");
}

#[test]
fn without_cgroups_sessions_are_followed() {
    let tree = Tree::open(&Hierarchy::sessions(), &CgroupPath::root()).unwrap();
    assert!(tree.notice().unwrap().contains("sessions"));
    let unit = place("a.service");
    assert!(matches!(tree.target(&unit).unwrap(), SpawnTarget::Recorded));
    // `setsid` forks only if it leads a group already, which a child of ours does not.
    let mut child = Command::new("setsid")
        .args(["sh", "-c", "sleep 1000 & sleep 1000 & wait"])
        .spawn()
        .unwrap();
    tree.record(&unit, pid_of(&child));
    wait_for("three processes", || {
        tree.processes(&unit).unwrap().len() == 3
    });
    assert!(tree.is_populated(&unit).unwrap());
    assert_eq!(tree.usage(&unit).unwrap().tasks, Some(3));
    assert_eq!(tree.leftovers().unwrap().len(), 1);
    tree.kill(&unit).unwrap();
    child.wait().unwrap();
    wait_for("nobody is left", || !tree.is_populated(&unit).unwrap());
    assert!(tree.set_frozen(&unit, true).is_err() && tree.events_file(&unit).is_none());
    tree.remove(&unit).unwrap();
}

#[test]
fn a_named_v1_hierarchy_tracks_and_kills() {
    let Ok(hierarchy) = Hierarchy::at(std::path::Path::new("/sys/fs/cgroup/systemd")) else {
        println!("a_named_v1_hierarchy_tracks_and_kills: skipped, this machine has none");
        return;
    };
    let own = place(&format!("muster-test-v1-{}", std::process::id()));
    let tree = Tree::open(&hierarchy, &own).unwrap();
    assert_eq!(tree.mode(), Mode::Legacy);
    assert!(tree.notice().unwrap().contains("v1"));
    let unit = place("a.slice/x.service");
    assert!(matches!(tree.target(&unit).unwrap(), SpawnTarget::Joins(_)));
    let rig = Rig { tree };
    let script = "(setsid sh -c 'sleep 1000 & sleep 1000 & exit' &); exec sleep 1000";
    let mut child = rig.run(&unit, script);
    // The shells that start them are processes too, until they have ended.
    wait_for("three processes that sleep", || {
        let all = rig.tree.processes(&unit).unwrap();
        all.len() == 3 && all.iter().all(|pid| name_of(*pid) == "sleep")
    });
    assert_eq!(rig.tree.leftovers().unwrap().len(), 1);
    assert_eq!(rig.tree.usage(&unit).unwrap().tasks, Some(3));
    rig.tree.kill(&unit).unwrap();
    child.wait().unwrap();
    rig.wait_populated(&unit, false);
    assert!(
        rig.tree.set_frozen(&unit, true).is_err() && rig.tree.set(&unit, "tasks", "0").is_err()
    );
}
