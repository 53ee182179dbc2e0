//! What the kernel offers.

use muster_cgroup::{Hierarchy, Mode};

use super::Finding;
use super::machine::Machine;

/// Clones into cgroups, kills them whole, and hands out descriptors of processes.
const OLDEST: (u32, u32) = (5, 14);
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
/// What the daemons of a Unit of two nodes on one machine use, with some to spare.
const INOTIFY_NEEDED: usize = 32;
/// What limits and figures of instances need.
const CONTROLLERS: [&str; 4] = ["cpu", "io", "memory", "pids"];

pub(super) fn version(machine: &Machine) -> Finding {
    const CHECK: &str = "kernel";
    let release = machine.text("/proc/sys/kernel/osrelease");
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse().ok());
    let (oldest_major, oldest_minor) = OLDEST;
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => {
            Finding::ok(CHECK, format!("Linux {release}"))
        }
        (Some(_), Some(_)) => Finding::error(
            CHECK,
            format!("Linux {release} is too old"),
            format!("boot Linux {oldest_major}.{oldest_minor} or newer"),
        ),
        _ => Finding::warning(
            CHECK,
            "the version of the kernel cannot be told",
            "mount /proc, and run this on Linux",
        ),
    }
}

pub(super) fn namespaces(machine: &Machine) -> Finding {
    const CHECK: &str = "namespaces";
    let missing: Vec<&str> = (NAMESPACES.into_iter())
        .filter(|name| !is_link(machine, &format!("/proc/self/ns/{name}")))
        .collect();
    match missing.is_empty() {
        true => Finding::ok(CHECK, NAMESPACES.join(", ")),
        false => Finding::error(
            CHECK,
            format!("the kernel has no namespaces for {}", missing.join(", ")),
            "boot a kernel with CONFIG_NAMESPACES and all kinds of them",
        ),
    }
}

/// What the links of /proc point to are no files.
fn is_link(machine: &Machine, path: &str) -> bool {
    std::fs::symlink_metadata(machine.file(path)).is_ok()
}

pub(super) fn overlay(machine: &Machine) -> Finding {
    const CHECK: &str = "overlay";
    let known = machine.text("/proc/filesystems");
    let known = |name: &str| known.split_whitespace().any(|word| word == name);
    let release = machine.text("/proc/sys/kernel/osrelease");
    let modules = format!("/lib/modules/{}", release.trim());
    if known("overlay") {
        Finding::ok(
            CHECK,
            "layers of images are laid over each other by the kernel",
        )
    } else if machine.has(&modules) {
        Finding::warning(
            CHECK,
            "overlay is not loaded",
            "modprobe overlay, and name it in /etc/modules",
        )
    } else {
        Finding::error(
            CHECK,
            "the kernel has no overlay file system, so containers cannot run",
            "boot a kernel with CONFIG_OVERLAY_FS, or use the runtime native",
        )
    }
}

pub(super) fn seccomp(machine: &Machine) -> Finding {
    const CHECK: &str = "seccomp";
    match machine.has("/proc/sys/kernel/seccomp/actions_avail") {
        true => Finding::ok(CHECK, "system calls of instances can be confined"),
        false => Finding::warning(
            CHECK,
            "the kernel cannot confine system calls",
            "boot a kernel with CONFIG_SECCOMP_FILTER",
        ),
    }
}

/// Instances of inotify, of which a user has a number: daemons watch files with them.
pub(super) fn inotify(machine: &Machine) -> Finding {
    const CHECK: &str = "inotify";
    let most = machine.text("/proc/sys/fs/inotify/max_user_instances");
    let Ok(most) = most.trim().parse::<usize>() else {
        return Finding::warning(
            CHECK,
            "how many files' watchers a user may have cannot be told",
            "mount /proc, and boot a kernel with CONFIG_INOTIFY_USER",
        );
    };
    let used = machine.inotify_instances();
    let left = most.saturating_sub(used);
    match left < INOTIFY_NEEDED {
        true => Finding::warning(
            CHECK,
            format!(
                "{used} of {most} watchers of files are in use; a Unit of two nodes needs {INOTIFY_NEEDED}"
            ),
            "sysctl fs.inotify.max_user_instances=1024, and the same in /etc/sysctl.d/muster.conf",
        ),
        false => Finding::ok(CHECK, format!("{used} of {most} watchers of files in use")),
    }
}

pub(super) fn cgroups(machine: &Machine) -> Finding {
    const CHECK: &str = "cgroups";
    const UNIFIED: &str = "boot with systemd.unified_cgroup_hierarchy=1 or cgroup_no_v1=all, so that only v2 is mounted";
    let hierarchy = Hierarchy::from_tables(
        &machine.text("/proc/self/mountinfo"),
        &machine.text("/proc/self/cgroup"),
    );
    match hierarchy.mode {
        Mode::Unified => {
            let offered = machine.text("/sys/fs/cgroup/cgroup.controllers");
            let offered: Vec<&str> = offered.split_whitespace().collect();
            let missing: Vec<&str> = (CONTROLLERS.into_iter())
                .filter(|name| !offered.contains(name))
                .collect();
            match missing.is_empty() {
                true => Finding::ok(CHECK, "v2, with all controllers"),
                false => Finding::warning(
                    CHECK,
                    format!("v2, without {}", missing.join(", ")),
                    "limits and figures of these are missing; enable the controllers in the kernel, or in the cgroup above",
                ),
            }
        }
        Mode::Hybrid => Finding::warning(
            CHECK,
            "hybrid: v2 tracks processes, v1 has the controllers; crun does not run here, runc does",
            UNIFIED,
        ),
        Mode::Legacy => Finding::warning(
            CHECK,
            "v1 only: processes cannot be ended all at once",
            UNIFIED,
        ),
        Mode::Sessions => Finding::error(
            CHECK,
            "no cgroups are mounted, so instances can neither be limited nor tracked",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}
