//! Mounts, devices, generators.

use std::os::fd::AsFd;
use std::time::Duration;

use muster_lab::poll_until;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::rig::{Rig, TIME};

#[test]
fn mounts_follow_the_kernels_table() {
    muster_lab::require!(Root);
    let mount = "[Mount]\nWhat=tmpfs\nWhere=/run/here\nType=tmpfs\nOptions=size=64k\n";
    let rig = Rig::boot(|b| b.unit("run-here.mount", mount));
    rig.ok(&["start", "run-here.mount"]);
    let mounted = || {
        rig.read("/proc/1/mountinfo")
            .unwrap()
            .contains(" /run/here ")
    };
    assert!(mounted());
    assert_eq!(rig.property("run-here.mount", "ActiveState"), "active");
    // Somebody else takes it away and puts it back.
    assert!(rig.run(["umount", "/run/here"]).unwrap().status.success());
    rig.wait_for_property("run-here.mount", "ActiveState", "inactive");
    let again = ["mount", "-t", "tmpfs", "tmpfs", "/run/here"];
    assert!(rig.run(again).unwrap().status.success());
    rig.wait_for_property("run-here.mount", "ActiveState", "active");
    rig.kill_core();
    assert_eq!(rig.property("run-here.mount", "ActiveState"), "active");
    rig.ok(&["stop", "run-here.mount"]);
    assert!(!mounted());
    // One that no unit file speaks of has a unit all the same.
    assert!(rig.run(["mkdir", "/run/other"]).unwrap().status.success());
    let other = ["mount", "-t", "tmpfs", "other", "/run/other"];
    assert!(rig.run(other).unwrap().status.success());
    rig.wait_for_property("run-other.mount", "ActiveState", "active");
    assert_eq!(rig.property("run-other.mount", "What"), "other");
    rig.ok(&["stop", "run-other.mount"]);
}

#[test]
fn mounts_of_musters_own_get_units_only_if_somebody_asks() {
    muster_lab::require!(Root);
    let rig = Rig::boot(|b| b);
    for place in ["/run/muster/root", "/run/later"] {
        assert!(rig.run(["mkdir", place]).unwrap().status.success());
        let mount = ["mount", "-t", "tmpfs", "other", place];
        assert!(rig.run(mount).unwrap().status.success());
    }
    rig.wait_for_property("run-later.mount", "ActiveState", "active");
    let listed = rig.ok(&["list-units", "--all"]);
    assert!(listed.contains("run-later.mount"), "{listed}");
    assert!(!listed.contains("run-muster-root.mount"), "{listed}");
    // A unit that somebody asks for knows that there is nothing to do.
    rig.ok(&["start", "run-muster-root.mount"]);
    let state = rig.property("run-muster-root.mount", "ActiveState");
    assert_eq!(state, "active");
    let mounted = rig.read("/proc/1/mountinfo").unwrap();
    assert_eq!(mounted.matches(" /run/muster/root ").count(), 1);
}

/// Ten thousand mounts at once, as seen by the whole manager.
#[test]
fn a_storm_of_mounts_does_not_keep_the_manager_busy() {
    muster_lab::require!(Root);
    const MOUNTS: usize = 10_000;
    let rig = Rig::boot(|b| b);
    let before = rig.core().expect("a manager").cpu_time().unwrap();
    in_namespace_of(rig.host_pid(), || {
        std::fs::create_dir("/run/storm").unwrap();
        let flags = MountFlags::empty();
        rustix::mount::mount("storm", "/run/storm", "tmpfs", flags, None).unwrap();
        std::fs::create_dir("/run/storm/source").unwrap();
        for n in 1..=MOUNTS {
            let place = format!("/run/storm/p{n}");
            std::fs::create_dir(&place).unwrap();
            rustix::mount::mount_bind("/run/storm/source", &place).unwrap();
        }
    });
    // A unit that somebody asks for knows that there is nothing to do.
    let last = format!("run-storm-p{MOUNTS}.mount");
    poll_until(TIME, "the manager to have seen the last", || {
        rig.sctl(&["start", &last]).status.success()
    });
    assert_eq!(rig.property(&last, "ActiveState"), "active");
    let mounted = rig.read("/proc/1/mountinfo").unwrap();
    let times = mounted.matches(&format!(" /run/storm/p{MOUNTS} ")).count();
    assert_eq!(times, 1, "it was mounted once more");
    let cost = rig.core().expect("a manager").cpu_time().unwrap() - before;
    println!("{MOUNTS} mounts cost the manager {cost:?} of CPU");
    // Without optimisation, an order of magnitude more.
    let limit = if cfg!(debug_assertions) { 1000 } else { 100 };
    assert!(cost < Duration::from_millis(limit), "{cost:?}");
    in_namespace_of(rig.host_pid(), || {
        rustix::mount::unmount("/run/storm", UnmountFlags::DETACH).unwrap();
    });
    rig.wait_for_property(&last, "ActiveState", "inactive");
}

/// Runs in the mount namespace of a process, on a thread that ends with it.
fn in_namespace_of(pid: i32, act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = std::fs::File::open(format!("/proc/{pid}/ns/mnt")).unwrap();
            unshare_folders();
            let kind = Some(LinkNameSpaceType::Mount);
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            act();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[expect(unsafe_code, reason = "leaving what threads share has no safe wrapper")]
fn unshare_folders() {
    // SAFETY: only the root and working folders are left; descriptors stay shared with the other threads.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.unwrap();
}

#[test]
fn units_wait_for_devices_and_find_those_that_are_there() {
    muster_lab::require!(Root);
    let waits = "[Unit]\nBindsTo=dev-none.device\nAfter=dev-none.device\nJobTimeoutSec=1s\n[Service]\nExecStart=/bin/true\n";
    let found = "[Unit]\nBindsTo=dev-tty.device\nAfter=dev-tty.device\n[Service]\nExecStart=/bin/sleep infinity\n";
    let rig = Rig::boot(|b| b.unit("waits.service", waits).unit("found.service", found));
    if rig.read("/sys/class/tty/tty/uevent").is_err() {
        println!(
            "skipped: units_wait_for_devices_and_find_those_that_are_there: no /sys in the machine"
        );
        return;
    }
    rig.ok(&["start", "found.service"]);
    assert_eq!(rig.property("dev-tty.device", "SubState"), "plugged");
    rig.kill_core();
    assert_eq!(rig.property("found.service", "ActiveState"), "active");
    assert_eq!(rig.property("dev-tty.device", "SubState"), "plugged");
    assert!(!rig.sctl(&["start", "waits.service"]).status.success());
}

#[test]
fn generators_make_units_at_boot_and_at_reload() {
    muster_lab::require!(Root);
    let generator = "#!/bin/sh\nset -e\n\
                     n=$(cat /run/number 2>/dev/null || echo 0)\n\
                     printf '[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \"echo %s >/run/made\"\\n' $n >\"$1/made.service\"\n\
                     if [ -e /run/slow ]; then sleep 3; fi\n\
                     echo \"made number $n\"\n";
    let broken = "#!/bin/sh\necho it broke >&2\nexit 3\n";
    let folder = "/etc/systemd/system-generators";
    let rig = Rig::boot(|b| {
        b.file(format!("{folder}/make"), generator, 0o755).file(
            format!("{folder}/break"),
            broken,
            0o755,
        )
    });
    let made = |number: &str| {
        rig.ok(&["start", "made.service"]);
        assert_eq!(rig.lines("/run/made"), [number]);
    };
    made("0");
    rig.write("/run/number", "1").unwrap();
    rig.ok(&["daemon-reload"]);
    made("1");
    rig.wait_for_message("break exited with 3");
    // A slow one does not hold the manager up, and what it writes is read when it is done.
    rig.write("/run/slow", "").unwrap();
    rig.write("/run/number", "2").unwrap();
    rig.ok(&["daemon-reload"]);
    poll_until(TIME, "what the slow generator wrote", || {
        rig.ok(&["start", "made.service"]);
        rig.lines("/run/made") == ["2"]
    });
}
