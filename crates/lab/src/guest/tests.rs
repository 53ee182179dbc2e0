use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::powercut::{LoggedDisk, Unflushed};
use crate::preflight::STRICT_VARIABLE;

const UML_TIME: Duration = Duration::from_secs(60);
const QEMU_TIME: Duration = Duration::from_secs(120);

/// Whether a QEMU guest can be booted; says so if not, as `require!` does.
fn qemu_is_ready(test: &str) -> bool {
    let Some(reason) = Guest::qemu().unavailable() else {
        return true;
    };
    let line = format!("skipped: muster_lab::guest::tests::{test}: {reason}");
    let strict = std::env::var(STRICT_VARIABLE).is_ok_and(|value| value == "1");
    assert!(!strict, "{line} (not allowed with {STRICT_VARIABLE}=1)");
    eprintln!("{line}");
    false
}

/// Loads two modules that the host may lack, and uses both.
const MODULE_SCRIPT: &str = "
    set -e
    ip link add dummy7 type dummy
    ip link set dummy7 up
    ip link add link dummy7 name dummy7.42 type vlan id 42
    cat /proc/net/vlan/dummy7.42 >/out/vlan
    grep -E '^(dm_flakey|8021q) ' /proc/modules | cut -d' ' -f1 | sort >/out/modules
";

fn check_modules(guest: Guest, within: Duration) {
    let guest = guest
        .module("8021q")
        .module("dm-flakey")
        .module("dummy")
        .script(MODULE_SCRIPT);
    let outcome = guest.run(within).unwrap();
    assert_eq!(outcome.status, Some(0), "{:#?}", outcome.console);
    assert_eq!(outcome.text("modules").unwrap(), "8021q\ndm_flakey\n");
    assert!(outcome.text("vlan").unwrap().contains("VID: 42"));
}

#[test]
fn uml_runs_a_script_and_returns_files() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let started = Instant::now();
    let outcome = Guest::uml()
        .file("/etc/greeting", "hello", 0o600)
        .script(
            "echo on the console
             mkdir /out/deep
             cat /etc/greeting >/out/deep/greeting
             cat /sys/fs/cgroup/cgroup.controllers >/out/controllers
             cat /proc/1/cmdline | tr '\\0' ' ' >/out/init
             exit 7",
        )
        .run(UML_TIME)
        .unwrap();
    println!("boot to end: {:?}", started.elapsed());
    assert_eq!(outcome.status, Some(7));
    assert!(outcome.console.iter().any(|line| line == "on the console"));
    assert_eq!(outcome.text("deep/greeting").unwrap(), "hello");
    assert!(outcome.text("init").unwrap().contains("/lab/init"));
    let controllers = outcome.text("controllers").unwrap();
    for wanted in ["cpu", "io", "memory", "pids"] {
        assert!(
            controllers.split_whitespace().any(|name| name == wanted),
            "{controllers}"
        );
    }
}

#[test]
fn uml_boots_into_a_given_init() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let init = "#!/bin/sh\necho $$ >/out/pid\n/lab/bin/busybox poweroff -f\n";
    let guest = Guest::uml()
        .file("/sbin/own-init", init, 0o755)
        .init("/sbin/own-init");
    let outcome = guest.run(UML_TIME).unwrap();
    assert_eq!(
        (outcome.status, outcome.text("pid").unwrap().trim()),
        (None, "1")
    );
}

#[test]
fn uml_shares_folders_of_the_host() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let folder = tempfile::tempdir().unwrap();
    let outcome = Guest::uml()
        .share_host_tools()
        .share_writable(folder.path(), "/host")
        .script("/usr/bin/env true && echo seen >/host/file && ! touch /usr/written")
        .run(UML_TIME)
        .unwrap();
    assert_eq!(outcome.status, Some(0), "{:#?}", outcome.console);
    assert_eq!(
        fs::read_to_string(folder.path().join("file")).unwrap(),
        "seen\n"
    );
    assert!(!Path::new("/usr/written").exists());
}

#[test]
fn uml_loads_modules() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    check_modules(Guest::uml(), UML_TIME);
}

#[test]
fn a_guest_that_hangs_is_ended_at_the_deadline() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let mut guest = Guest::uml()
        .script("echo hanging; sleep 1000")
        .boot()
        .unwrap();
    guest.wait_for_line("hanging", UML_TIME).unwrap();
    let started = Instant::now();
    let error = guest.finish(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(&error, GuestError::Deadline { console, .. } if console.contains("hanging")));
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_guest_that_panics_gives_no_verdict() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let guest = Guest::uml()
        .script("echo about to panic; echo c >/proc/sysrq-trigger; kill -9 1; poweroff -f");
    let error = guest.run(UML_TIME).unwrap_err();
    assert!(
        matches!(&error, GuestError::NoVerdict { console } if console.contains("panic")),
        "{error}"
    );
}

#[test]
fn what_cannot_be_booted_is_said_before() {
    crate::require!(Tool("linux.uml"), Tool("busybox"));
    let error = Guest::uml().module("no-such").boot().unwrap_err();
    assert!(matches!(error, GuestError::NoSuchModule(name) if name == "no_such"));
    let error = Guest::uml().disk("/missing/disk").boot().unwrap_err();
    assert!(
        matches!(error, GuestError::Prepare { path, .. } if path == Path::new("/missing/disk"))
    );
    let error = Guest::qemu().share("/usr", "/usr").boot().unwrap_err();
    assert!(matches!(error, GuestError::ShareUnsupported));
}

/// Writes one file that is synchronised and one that is not, then waits for the end.
const POWER_SCRIPT: &str = "
    mkdir -p /mnt
    mount -t ext4 -o commit=600 /dev/disk0 /mnt
    echo kept >/mnt/kept
    sync
    echo unsynchronised >/mnt/unsynchronised
    echo written
    sleep 1000
";
const LOOK_SCRIPT: &str = "
    mkdir -p /mnt
    mount -t ext4 /dev/disk0 /mnt || exit 1
    ls /mnt >/out/names
    cat /mnt/kept >/out/kept
";

#[test]
fn a_power_cut_keeps_what_was_synchronised_and_loses_the_rest() {
    crate::require!(Tool("linux.uml"), Tool("busybox"), Tool("mkfs.ext4"));
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    make_ext4_disk(&disk, 32 << 20).unwrap();
    let mut guest = Guest::uml()
        .disk(&disk)
        .script(POWER_SCRIPT)
        .boot()
        .unwrap();
    guest.wait_for_line("written", UML_TIME).unwrap();
    assert_eq!(guest.kill9().unwrap().status, None);

    let outcome = Guest::uml()
        .disk(&disk)
        .script(LOOK_SCRIPT)
        .run(UML_TIME)
        .unwrap();
    assert_eq!(outcome.status, Some(0), "{:#?}", outcome.console);
    assert_eq!(outcome.text("kept").unwrap(), "kept\n");
    assert!(!outcome.text("names").unwrap().contains("unsynchronised"));
}

fn check_logged_disk(disk: &LoggedDisk, guest: Guest, within: Duration) {
    let mut guest = guest.script(POWER_SCRIPT).boot().unwrap();
    guest.wait_for_line("written", within).unwrap();
    let position = disk.position();
    guest.kill9().unwrap();
    let image = disk.log().image_at(position, Unflushed::DropAll);
    let mounted = image.mount().unwrap();
    let kept = fs::read_to_string(mounted.path().join("kept"));
    assert_eq!(kept.unwrap(), "kept\n");
    assert!(!mounted.path().join("unsynchronised").exists());
}

#[test]
fn uml_writes_through_to_a_logged_disk() {
    crate::require!(Root, Fuse, LoopDevice, Tool("linux.uml"), Tool("busybox"));
    let disk = LoggedDisk::create(32 << 20).unwrap();
    let guest = Guest::uml().disk_write_through(disk.path());
    check_logged_disk(&disk, guest, UML_TIME);
}

#[test]
fn qemu_flushes_a_logged_disk() {
    crate::require!(
        Root,
        Fuse,
        LoopDevice,
        Tool("qemu-system-x86_64"),
        Tool("busybox")
    );
    if !qemu_is_ready("qemu_flushes_a_logged_disk") {
        return;
    }
    let disk = LoggedDisk::create(32 << 20).unwrap();
    check_logged_disk(&disk, Guest::qemu().disk(disk.path()), QEMU_TIME);
}

#[test]
fn qemu_runs_a_script_and_loads_modules() {
    crate::require!(Tool("qemu-system-x86_64"), Tool("busybox"));
    if !qemu_is_ready("qemu_runs_a_script_and_loads_modules") {
        return;
    }
    let started = Instant::now();
    check_modules(Guest::qemu(), QEMU_TIME);
    println!("boot to end: {:?}", started.elapsed());
}

#[test]
fn qemu_survives_a_power_cut_like_a_machine() {
    crate::require!(
        Tool("qemu-system-x86_64"),
        Tool("busybox"),
        Tool("mkfs.ext4")
    );
    if !qemu_is_ready("qemu_survives_a_power_cut_like_a_machine") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    make_ext4_disk(&disk, 32 << 20).unwrap();
    let mut guest = Guest::qemu()
        .disk(&disk)
        .script(POWER_SCRIPT)
        .boot()
        .unwrap();
    guest.wait_ready(QEMU_TIME).unwrap();
    guest.wait_for_line("written", QEMU_TIME).unwrap();
    guest.kill9().unwrap();
    let outcome = Guest::qemu()
        .disk(&disk)
        .script(LOOK_SCRIPT)
        .run(QEMU_TIME)
        .unwrap();
    assert_eq!(outcome.status, Some(0), "{:#?}", outcome.console);
    assert_eq!(outcome.text("kept").unwrap(), "kept\n");
    assert!(!outcome.text("names").unwrap().contains("unsynchronised"));
}
