//! `muster-init` as PID 1 of a machine with a kernel of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_lab::guest::{Guest, make_ext4_disk};

use crate::rig::{fake_core, init_program};

const TIME: Duration = Duration::from_secs(60);

/// What the two programs need to run where nothing else is.
const LIBRARIES: [&str; 3] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];

#[test]
fn machine_boots_and_ends_with_its_disks_clean() {
    muster_lab::require!(Root, Tool("linux.uml"), Tool("busybox"), Tool("dumpe2fs"));
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    make_ext4_disk(&disk, 32 << 20).unwrap();
    // The mount, a process that uses it and a file on it that is kept are left to init.
    let script = "\
run mkdir -p /mnt/disk && mount -t ext4 /dev/ubda /mnt/disk && echo data > /mnt/disk/file
run cp /proc/self/mounts /out/mounts; cat /proc/1/cmdline > /out/init; cat /proc/sys/kernel/ctrl-alt-del > /out/keys
spawn cd /mnt/disk; trap '' TERM; exec sleep 600 > log
run while [ ! -e /mnt/disk/log ]; do :; done
keep /mnt/disk/file
shutdown poweroff
";
    let mut guest = Guest::uml()
        .host_file(init_program(), "/sbin/muster-init")
        .host_file(fake_core(), "/opt/core")
        .file("/fake/script", script, 0o644)
        .kernel_arg("muster.core=/opt/core")
        .kernel_arg("muster.safe")
        .kernel_arg("single")
        .disk(&disk)
        .init("/sbin/muster-init");
    for library in LIBRARIES {
        guest = guest.host_file(Path::new(library).canonicalize().unwrap(), library);
    }
    let outcome = guest.run(TIME).unwrap();
    let console = outcome.console.join("\n");
    assert_eq!(outcome.status, None, "{console}");
    assert!(console.contains("safe=true"), "{console}");
    assert!(console.contains("supervised=false"), "{console}");
    let mounts = outcome.text("mounts").unwrap();
    for wanted in [
        " /proc proc ",
        " /sys sysfs ",
        " /dev devtmpfs ",
        " /dev/pts devpts ",
        " /dev/shm tmpfs ",
        " /run tmpfs ",
        " /sys/fs/cgroup cgroup2 ",
        " /mnt/disk ext4 ",
    ] {
        assert!(mounts.contains(wanted), "no{wanted}in\n{mounts}");
    }
    assert_eq!(outcome.text("keys").unwrap().trim(), "0");

    let header = Command::new("dumpe2fs")
        .arg("-h")
        .arg(&disk)
        .output()
        .unwrap();
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    assert!(!header.contains("needs_recovery"), "{header}");
    assert!(
        header
            .lines()
            .any(|line| line.starts_with("Filesystem state:") && line.ends_with(" clean")),
        "{header}"
    );
    let read = Command::new("debugfs")
        .args(["-R", "cat /file"])
        .arg(&disk)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "data\n");
}
