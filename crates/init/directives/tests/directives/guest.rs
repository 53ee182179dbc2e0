//! Under Muster, in a guest with a kernel of its own and controllers of cgroup v2: all but `cpuset`, which [`kernel`] has.
//!
//! [`kernel`]: crate::kernel

use muster_lab::machine::Build;
use muster_lab::muster;
use tempfile::NamedTempFile;

use crate::case;
use crate::world::World;

/// What this kernel has of control groups, so that their cases run here.
pub(crate) const GROUP_FACTS: &[&str] = &[
    "cpu-controller",
    "cpu-controller-v2",
    "io-limits",
    "memory-controller",
    "memory-controller-v2",
    "pids-controller",
    "pids-controller-v2",
    "swap-accounting",
];

fn run(topic: &str) {
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let world = World::new(case::read(topic)).on_a_machine_with(GROUP_FACTS);
    let disk = disk();
    let guest = muster::guest(&programs).disk(disk.path());
    world.run_guest(&format!("guest: {topic}"), guest);
}

/// A disk with nothing on it, which limits can be set for.
pub(crate) fn disk() -> NamedTempFile {
    const BYTES: u64 = 32 << 20;
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    file
}

crate::topics::every_topic!(run, Root, Tool("linux.uml"), File("/bin/busybox"));
