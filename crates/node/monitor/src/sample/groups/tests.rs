//! Trees of kernels that this machine does not run, as folders with files.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use muster_cgroup::CgroupPath;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{Reading, Sampler};
use super::{GroupSample, usage_nanos};
use crate::clock::{Clock, Moment};
use crate::cpu::GroupTime;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment {
            steady: Duration::from_secs(7),
            wall: SystemTime::UNIX_EPOCH,
        }
    }
}

const V2: &str = "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n";
const LEGACY: &str = "\
    31 30 0:27 / /v1/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
    32 30 0:28 / /v1/memory rw - cgroup cgroup rw,memory\n\
    33 30 0:29 / /v1/pids rw - cgroup cgroup rw,pids\n";

/// A machine out of files.
struct Machine(TempDir);

impl Machine {
    fn new(mounts: &str, files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.write("proc/self/mountinfo", mounts);
        for (path, content) in files {
            machine.write(path, content);
        }
        machine
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.0.path().join(path)).unwrap();
    }

    fn sampler(&self) -> Sampler {
        Sampler::new(self.0.path())
    }
}

fn read(sampler: &Sampler) -> GroupSample {
    let group = CgroupPath::parse("a.slice/b.service").ok();
    sampler.sample([&group], &Still).groups[0]
}

fn sample(nanos: u64, memory: u64, pids: u64) -> GroupSample {
    GroupSample {
        cpu: Reading::Value(GroupTime {
            nanos,
            at: Duration::from_secs(7),
        }),
        memory: Reading::Value(memory),
        pids: Reading::Value(pids),
    }
}

const V2_FILES: [(&str, &str); 3] = [
    (
        "cg/a.slice/b.service/cpu.stat",
        "usage_usec 5\nuser_usec 3\nsystem_usec 2\n",
    ),
    ("cg/a.slice/b.service/memory.current", "4096\n"),
    ("cg/a.slice/b.service/pids.current", "3\n"),
];
const LEGACY_FILES: [(&str, &str); 3] = [
    ("v1/cpu/a.slice/b.service/cpuacct.usage", "77\n"),
    (
        "v1/memory/a.slice/b.service/memory.usage_in_bytes",
        "8192\n",
    ),
    ("v1/pids/a.slice/b.service/pids.current", "2\n"),
];

#[test]
fn v2_alone() {
    let machine = Machine::new(V2, &V2_FILES);
    assert_eq!(read(&machine.sampler()), sample(5000, 4096, 3));
}

#[test]
fn v1_alone() {
    let machine = Machine::new(LEGACY, &LEGACY_FILES);
    machine.write("v1/cpu/x", "");
    assert_eq!(read(&machine.sampler()), sample(77, 8192, 2));
}

#[test]
fn v1_counts_before_v2_and_each_fills_the_others_gaps() {
    let machine = Machine::new(&format!("{V2}{LEGACY}"), &V2_FILES);
    for (path, content) in LEGACY_FILES {
        machine.write(path, content);
    }
    let sampler = machine.sampler();
    assert_eq!(read(&sampler), sample(77, 8192, 2));
    // A program without limits is in no group of v1.
    machine.remove("v1/cpu/a.slice");
    assert_eq!(read(&sampler), sample(5000, 8192, 2));
    machine.remove("v1/memory/a.slice");
    assert_eq!(read(&sampler), sample(5000, 4096, 2));
}

#[test]
fn without_controllers_the_processes_are_counted() {
    let own = std::process::id().to_string();
    let machine = Machine::new(V2, &V2_FILES[..1]);
    machine.write("cg/a.slice/b.service/cgroup.procs", &format!("{own}\n"));
    let found = read(&machine.sampler());
    assert_eq!(found.cpu, sample(5000, 0, 0).cpu);
    assert!(found.memory.value().unwrap() > 100_000, "{found:?}");
    assert!(found.pids.value().unwrap() >= 1, "{found:?}");
}

#[test]
fn a_group_that_goes_is_lost_and_one_made_anew_is_read_again() {
    let machine = Machine::new(V2, &V2_FILES);
    let sampler = machine.sampler();
    assert_eq!(read(&sampler), sample(5000, 4096, 3));
    machine.remove("cg/a.slice");
    let lost = read(&sampler);
    assert!(lost.cpu.is_lost() && lost.memory.is_lost() && lost.pids.is_lost());
    for (path, content) in V2_FILES {
        machine.write(path, content);
    }
    assert_eq!(read(&sampler), sample(5000, 4096, 3));
}

#[test]
fn nonsense_in_a_file_is_lost_and_the_rest_is_read() {
    let machine = Machine::new(LEGACY, &LEGACY_FILES);
    for nonsense in ["", "x", "-1", "18446744073709551616", "max\n"] {
        machine.write(
            "v1/memory/a.slice/b.service/memory.usage_in_bytes",
            nonsense,
        );
        let found = read(&machine.sampler());
        assert!(found.memory.is_lost(), "{nonsense:?}: {found:?}");
        assert_eq!(
            (found.cpu, found.pids),
            (sample(77, 0, 0).cpu, Reading::Value(2))
        );
    }
}

#[test]
fn a_machine_without_trees_counts_nothing_and_says_so() {
    let machine = Machine::new("", &[]);
    let sampler = machine.sampler();
    assert_eq!(sampler.not_counted(), ["cpu", "memory", "pids"]);
    assert_eq!(read(&sampler).memory, Reading::NotCounted);
    let only_memory = Machine::new(&LEGACY[LEGACY.find("32 ").unwrap()..], &LEGACY_FILES);
    fs::create_dir_all(only_memory.0.path().join("v1/memory")).unwrap();
    let sampler = only_memory.sampler();
    assert_eq!(sampler.not_counted(), ["cpu"]);
    assert_eq!(read(&sampler).cpu, Reading::NotCounted);
    assert_eq!(read(&sampler).memory, Reading::Value(8192));
    assert_eq!(Sampler::new(Path::new("/nowhere")).not_counted().len(), 3);
}

#[test]
fn the_root_of_a_tree_is_a_group_too() {
    let machine = Machine::new(V2, &[("cg/cpu.stat", "usage_usec 9\n")]);
    let found = machine
        .sampler()
        .sample([&Some(CgroupPath::root()), &None], &Still);
    assert_eq!(found.groups[0].cpu, sample(9000, 0, 0).cpu);
    assert_eq!(found.groups[1].cpu, Reading::NotCounted);
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*") {
        let _ = usage_nanos(&text);
        let _ = usage_nanos(&format!("usage_usec {text}"));
    }
}
