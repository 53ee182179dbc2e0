//! Processes that somebody keeps from executing their program.

use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_cgroup::{CgroupPath, Hierarchy, Mode, SpawnTarget, Tree};
use muster_exec::{ExecContext, Launch, Limit, Prepared, Slot, SpawnError, Spawner, Step};
use rustix::process::{Signal, kill_process, test_kill_process};

use crate::rig::{program, spawn, wait};

const RLIMIT_CORE: u32 = 4;
/// More than a start may take, and less than whoever watches a manager waits for a sign of life.
const LONG: Duration = Duration::from_secs(8);

/// The start was given up in time, with the reason, and nothing is left of the process.
fn given_up(began: Instant, error: &SpawnError) {
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_eq!((error.step, error.errno), (Step::Exec, libc::ETIMEDOUT));
    let text = error.to_string();
    let reason = "was not executed within 4s: its cgroup is frozen, or it was stopped";
    assert!(text.ends_with(reason), "{text}");
    assert!(test_kill_process(error.pid.unwrap()).is_err());
}

#[test]
fn a_process_that_is_born_frozen_is_given_up() {
    let test = "a_process_that_is_born_frozen_is_given_up";
    let place = CgroupPath::parse(&format!("muster-exec-frozen-{}", std::process::id())).unwrap();
    let tree = Tree::open(&Hierarchy::detect().unwrap(), &place).ok();
    let tree = tree.filter(|tree| matches!(tree.mode(), Mode::Unified | Mode::Hybrid));
    let Some(tree) = tree else {
        println!("{test}: skipped, no cgroups of the second version can be made");
        return;
    };
    let unit = CgroupPath::parse("x.service").unwrap();
    tree.create(&unit).unwrap();
    let folder = tree.folder(&unit).unwrap();
    // As a delegate may: after it was looked at whether the group is frozen.
    tree.set_frozen(&unit, true).unwrap();
    let born = SpawnTarget::Born(std::fs::File::open(&folder).unwrap().into());
    let procs = folder.join("cgroup.procs");
    let procs = std::fs::File::options().write(true).open(procs).unwrap();
    let joins = SpawnTarget::Joins(procs.into());
    for target in [born, joins] {
        let launch = Launch {
            cgroup: Some(&target),
            ..Launch::default()
        };
        let began = Instant::now();
        let error = spawn(&program("/usr/bin/true"), &[], &launch).unwrap_err();
        given_up(began, &error);
    }
    // The next is as if nothing had been.
    tree.set_frozen(&unit, false).unwrap();
    let target = tree.target(&unit).unwrap();
    let launch = Launch {
        cgroup: Some(&target),
        ..Launch::default()
    };
    let spawned = spawn(&program("/usr/bin/true"), &[], &launch).unwrap();
    assert_eq!(wait(spawned.pid).exit_status(), Some(0));
    let root = tree.folder(&CgroupPath::root()).unwrap();
    tree.remove(&unit).unwrap();
    std::fs::remove_dir(root).unwrap();
}

/// A process with so much to do before its program that it is met on the way.
fn slow() -> ExecContext {
    let limit = || Limit {
        resource: RLIMIT_CORE,
        soft: 0,
        hard: u64::MAX,
    };
    ExecContext {
        limits: std::iter::repeat_with(limit).take(100_000).collect(),
        ..program("/usr/bin/true")
    }
}

/// Starts a process while somebody looks for it and stops it at once.
fn stopped_on_the_way(memory: &OwnedFd, slot: &mut Slot) -> SpawnError {
    let context = slow();
    let (ready, over) = (Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let seen = Slot::map(memory).unwrap();
            ready.wait();
            while !over.load(Ordering::SeqCst) {
                if let Some(pid) = seen.entry().pid {
                    return kill_process(pid, Signal::STOP).unwrap();
                }
                std::hint::spin_loop();
            }
        });
        let mut prepared = Prepared::new(&context, &[]).unwrap();
        let mut spawner = Spawner::new().unwrap();
        ready.wait();
        let started = spawner.spawn(&mut prepared, &Launch::default(), slot);
        over.store(true, Ordering::SeqCst);
        started.unwrap_err()
    })
}

#[test]
fn a_process_that_is_stopped_on_its_way_is_given_up() {
    let (mut slot, memory) = Slot::create().unwrap();
    slot.begin(1);
    let began = Instant::now();
    let error = stopped_on_the_way(&memory, &mut slot);
    given_up(began, &error);
}
