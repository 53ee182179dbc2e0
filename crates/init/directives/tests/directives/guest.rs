//! Under Muster, in a guest with a kernel of its own and controllers of cgroup v2: all but `cpuset`, which [`kernel`] has.
//!
//! [`kernel`]: crate::kernel

use muster_lab::machine::Build;
use muster_lab::muster;
use tempfile::NamedTempFile;

use crate::case;
use crate::world::World;

/// What this kernel has, and the machine that it runs on, so that the cases that need it run here.
pub(crate) const FACTS: &[&str] = &[
    "audit",
    "cpu-controller",
    "cpu-controller-v2",
    "io-limits",
    "keys",
    "loop",
    "memory-controller",
    "memory-controller-v2",
    "mksquashfs",
    "no-numa",
    "no-selinux",
    "no-smack",
    "nss-systemd",
    "overlay",
    "own-kernel",
    "pids-controller",
    "pids-controller-v2",
    "sfdisk",
    "squashfs",
    "swap-accounting",
    "sys-resource",
    "writable-tunables",
    "x86-64",
];

fn run(topic: &str) {
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let world = World::new(case::read(topic)).on_a_machine_with(FACTS);
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
