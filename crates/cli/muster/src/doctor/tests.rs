//! Checks on machines that are made of files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::machine::Machine;
use super::*;

/// A machine that is all right: a recent kernel, cgroup v2, all programs.
struct Fake {
    folder: TempDir,
    machine: Machine,
}

const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine {
            root: folder.path().to_owned(),
            path: vec![folder.path().join("usr/bin")],
            // After everything that is written here.
            now: Timestamp::now() + SignedDuration::from_hours(1),
            uid: rustix::process::geteuid().as_raw(),
        };
        let fake = Self { folder, machine };
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/sys/kernel/seccomp/actions_avail", "allow"),
            ("proc/filesystems", "nodev\tproc\nnodev\toverlay\n\text4\n"),
            ("proc/self/mountinfo", MOUNTS),
            ("proc/self/cgroup", "0::/\n"),
            (
                "sys/fs/cgroup/cgroup.controllers",
                "cpuset cpu io memory pids\n",
            ),
            ("proc/77/comm", "chronyd\n"),
            ("proc/sys/fs/inotify/max_user_instances", "128\n"),
            ("etc/os-release", "ID=debian\n"),
        ] {
            fake.write(path, text);
        }
        for name in ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"] {
            fake.write(&format!("proc/self/ns/{name}"), "");
        }
        for plugin in ["bandwidth", "bridge", "host-local", "loopback"] {
            fake.program(&format!("usr/lib/cni/{plugin}"), "");
        }
        fake.program("usr/bin/runc", "echo runc version 1.1.5; echo more");
        fake.program("usr/bin/nft", "echo nftables v1.0.6");
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.folder.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn program(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        let file = self.folder.path().join(path);
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.folder.path().join(path)).expect("removed");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

#[track_caller]
fn expect(finding: &Finding, state: Verdict, words: &str) {
    assert_eq!(finding.state, state, "{finding:?}");
    assert!(finding.message.contains(words), "{finding:?}");
    assert_eq!(
        finding.remedy.is_some(),
        state != Verdict::Ok,
        "{finding:?}"
    );
}

#[test]
fn a_machine_that_is_well_has_only_good_findings() {
    let fake = Fake::new();
    let machine = &fake.machine;
    let findings = [
        kernel::version(machine),
        kernel::namespaces(machine),
        kernel::overlay(machine),
        kernel::seccomp(machine),
        kernel::cgroups(machine),
        kernel::inotify(machine),
        block_on(programs::oci_runtime(machine)),
        programs::cni_plugins(machine),
        block_on(programs::nftables(machine)),
        host::clock(machine),
        host::ports(machine, false, false),
    ];
    for finding in &findings {
        expect(finding, Verdict::Ok, "");
    }
    assert_eq!(findings[6].message, "runc version 1.1.5");
}

#[test]
fn a_kernel_that_lacks_something_is_told_about() {
    let fake = Fake::new();
    fake.write("proc/sys/kernel/osrelease", "4.19.0-5\n");
    expect(
        &kernel::version(&fake.machine),
        Verdict::Error,
        "4.19.0-5 is too old",
    );
    fake.write("proc/sys/kernel/osrelease", "garbage");
    expect(&kernel::version(&fake.machine), Verdict::Warning, "");
    fake.remove("proc/self/ns/user");
    expect(&kernel::namespaces(&fake.machine), Verdict::Error, "user");
    fake.remove("proc/sys/kernel/seccomp/actions_avail");
    expect(&kernel::seccomp(&fake.machine), Verdict::Warning, "");
    fake.write("proc/filesystems", "ext4\n");
    fake.write("proc/sys/kernel/osrelease", "6.1.0\n");
    expect(
        &kernel::overlay(&fake.machine),
        Verdict::Error,
        "no overlay",
    );
    fake.write("lib/modules/6.1.0/modules.dep", "");
    expect(
        &kernel::overlay(&fake.machine),
        Verdict::Warning,
        "not loaded",
    );
}

#[test]
fn watchers_of_files_are_counted_for_this_user() {
    let mut fake = Fake::new();
    let descriptors = fake.folder.path().join("proc/77/fd");
    fs::create_dir(&descriptors).expect("made");
    for number in 0..100 {
        let leads_to = if number % 10 == 0 {
            "/dev/null"
        } else {
            "anon_inode:inotify"
        };
        let link = descriptors.join(number.to_string());
        std::os::unix::fs::symlink(leads_to, link).expect("a link");
    }
    expect(&kernel::inotify(&fake.machine), Verdict::Ok, "90 of 128");
    fake.write("proc/sys/fs/inotify/max_user_instances", "100\n");
    expect(
        &kernel::inotify(&fake.machine),
        Verdict::Warning,
        "90 of 100",
    );
    fake.machine.uid += 1;
    expect(&kernel::inotify(&fake.machine), Verdict::Ok, "0 of 100");
    fake.remove("proc/sys/fs/inotify/max_user_instances");
    expect(&kernel::inotify(&fake.machine), Verdict::Warning, "");
}

#[test]
fn every_kind_of_cgroups_is_told_apart() {
    let fake = Fake::new();
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu pids\n");
    expect(
        &kernel::cgroups(&fake.machine),
        Verdict::Warning,
        "without io, memory",
    );
    let v1 = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let unified = "32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    fake.write("proc/self/mountinfo", &format!("{v1}{unified}"));
    fake.write("proc/self/cgroup", "3:memory:/\n0::/\n");
    expect(&kernel::cgroups(&fake.machine), Verdict::Warning, "hybrid");
    fake.write("proc/self/mountinfo", "");
    fake.write("proc/self/cgroup", "");
    expect(
        &kernel::cgroups(&fake.machine),
        Verdict::Error,
        "no cgroups",
    );
}

#[test]
fn programs_that_are_missing_or_broken_are_told_about() {
    let fake = Fake::new();
    fake.program("usr/bin/runc", "exit 1");
    expect(
        &block_on(programs::oci_runtime(&fake.machine)),
        Verdict::Ok,
        "does not tell its version",
    );
    fake.remove("usr/bin/runc");
    expect(
        &block_on(programs::oci_runtime(&fake.machine)),
        Verdict::Error,
        "no OCI runtime",
    );
    fake.remove("usr/lib/cni/bridge");
    expect(
        &programs::cni_plugins(&fake.machine),
        Verdict::Warning,
        "bridge missing",
    );
    fake.program("usr/bin/nft", "exit 1");
    expect(
        &block_on(programs::nftables(&fake.machine)),
        Verdict::Warning,
        "does not run",
    );
    fake.remove("usr/bin/nft");
    expect(
        &block_on(programs::nftables(&fake.machine)),
        Verdict::Warning,
        "missing",
    );
}

#[test]
fn own_programs_are_all_there_and_of_one_version() {
    let fake = Fake::new();
    let folder = fake.folder.path().join("lib");
    let own = || block_on(programs::own(&folder));
    expect(&own(), Verdict::Warning, "none of Muster's programs");
    for name in programs::OWN {
        fake.program(
            &format!("lib/{name}"),
            &format!("echo {name} {}", env!("CARGO_PKG_VERSION")),
        );
    }
    expect(&own(), Verdict::Ok, "all of version");
    fake.program("lib/muster-sm", "echo muster-sm 9.9.9");
    expect(&own(), Verdict::Warning, "muster-sm 9.9.9 beside muster");
    fake.remove("lib/muster-sm");
    expect(&own(), Verdict::Warning, "muster-sm missing");
}

#[test]
fn clocks_users_and_ports_are_judged() {
    let mut fake = Fake::new();
    fake.remove("proc/77/comm");
    expect(
        &host::clock(&fake.machine),
        Verdict::Warning,
        "nothing keeps the clock right",
    );
    fake.write("run/systemd/timesync/synchronized", "");
    expect(&host::clock(&fake.machine), Verdict::Ok, "synchronised");
    fake.machine.now = Timestamp::now() - SignedDuration::from_hours(24 * 365);
    expect(&host::clock(&fake.machine), Verdict::Error, "lies before");
    fake.machine.uid = 0;
    expect(&host::user(&fake.machine), Verdict::Ok, "root");
    fake.machine.uid = 7;
    expect(&host::user(&fake.machine), Verdict::Warning, "not root");
    // 8093 and 8089, the latter over IPv6.
    let header = "  sl  local_address rem_address   st\n";
    fake.write(
        "proc/net/tcp",
        &format!("{header} 0: 00000000:1F9D 00000000:0000 0A\n"),
    );
    fake.write(
        "proc/net/tcp6",
        &format!("{header} 0: 00000000000000000000000000000000:1F99 0:0 0A\n"),
    );
    expect(
        &host::ports(&fake.machine, false, false),
        Verdict::Warning,
        "8089, 8093",
    );
    expect(
        &host::ports(&fake.machine, true, false),
        Verdict::Warning,
        "8093",
    );
    expect(&host::ports(&fake.machine, true, true), Verdict::Ok, "");
}

#[test]
fn a_folder_that_is_not_there_yet_has_the_space_of_its_parent() {
    let finding = host::disk(Path::new("/none/of/this/is/there"));
    assert!(
        finding.message.ends_with("free for /none/of/this/is/there"),
        "{finding:?}"
    );
}
