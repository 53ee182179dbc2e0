//! `muster-init` as PID 1 of a PID namespace.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use muster_lab::leaks::Watch;
use muster_lab::poll_until;
use muster_lab::program::Program;

use crate::rig::{Rig, TIME, fake_core, field, init_program};

/// Init as PID 1 of namespaces of its own.
fn first_process(core: &Path, options: &[&str]) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc"])
        .arg(init_program())
        .arg("--core")
        .arg(core)
        .args(options)
        .arg("--")
        .arg(folder.path());
    Rig::start_as(folder, &program)
}

#[test]
fn pid_one_reaps_keeps_and_ends_with_a_code() {
    muster_lab::require!(Root, Tool("unshare"));
    let mut rig = first_process(&fake_core(), &["single", "--shutdown-timeout", "0.3"]);
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "supervised"), "false");
    rig.order("store 100 a");
    let service = rig.spawn("exec sleep 600");
    let stubborn = rig.spawn("trap '' TERM; setsid sh -c 'sleep 600 & wait' & wait");
    let orphan = rig.spawn("(sh -c 'exit 5' &)");
    rig.wait_for(&format!(" {orphan} exited with code 0"));
    rig.wait_for("exited with code 5");
    assert!(service < 100 && stubborn < 100, "not in the namespace");
    for command in ["kill 9", "upgrade core same", "upgrade both same"] {
        rig.now();
        rig.tell(command);
        assert_eq!(field(&rig.wait_for_core(), "kept"), "100");
    }
    assert_eq!(rig.count("stays"), 0);
    rig.shut_down();
}

#[test]
fn pid_one_powers_its_namespace_off_and_reboots_it() {
    muster_lab::require!(Root, Tool("unshare"));
    // How the kernel tells whoever started the namespace.
    for (command, signal) in [("poweroff", 2), ("reboot now", 1)] {
        let mut rig = first_process(&fake_core(), &[]);
        rig.wait_for_core();
        rig.spawn("exec sleep 600");
        rig.tell(&format!("shutdown {command}"));
        let status = rig.init.wait(TIME).unwrap();
        assert_eq!(status.signal(), Some(signal), "{command}: {status}");
    }
}

#[test]
fn stop_that_hangs_is_named_and_killed_in_time() {
    muster_lab::require!(Root, Tool("unshare"));
    let mut rig = first_process(&fake_core(), &["--shutdown-timeout", "0.3"]);
    rig.wait_for_core();
    let pid = rig.spawn("trap '' TERM; echo deaf$((1)); while :; do sleep 600; done");
    rig.wait_for("deaf1");
    rig.tell("shutdown exit 7");
    assert_eq!(rig.init.wait(TIME).unwrap().code(), Some(7));
    assert_eq!(
        rig.count(&format!("process {pid} (sh) did not end and is killed")),
        1
    );
}

#[test]
fn pid_one_without_core_says_so_and_goes_on_trying() {
    muster_lab::require!(Root, Tool("unshare"));
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let mut rig = first_process(&core, &[]);
    rig.wait_for("No such file or directory");
    poll_until(TIME, "it tries again", || rig.count("No such file") >= 5);
    fs::copy(fake_core(), folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), &core).unwrap();
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "safe"), "true");
    rig.shut_down();
}

/// A root directory with programs and nothing else: what is missing gets mounted.
#[test]
fn pid_one_mounts_what_is_missing() {
    muster_lab::require!(Root, Tool("unshare"), Tool("chroot"));
    muster_lab::alone!();
    let root = tempfile::tempdir().unwrap();
    let leaks = Watch::own().folder(root.path()).take().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let programs = init_program().parent().unwrap().to_owned();
    let script = r#"
        mount -t tmpfs root "$1" && cd "$1" || exit 1
        mkdir usr programs folder && ln -s usr/bin usr/sbin usr/lib usr/lib64 .
        mount --rbind /usr usr && mount --bind "$2" programs && mount --bind "$3" folder || exit 1
        exec chroot . /programs/muster-init --core /programs/examples/fake-core -- /folder
    "#;
    let program = Program::new("unshare")
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(root.path())
        .arg(&programs)
        .arg(folder.path());
    let mut rig = Rig::start_as(folder, &program);
    rig.wait_for_core();
    let shell = rig.spawn("cat /proc/self/mounts > /folder/mounts; echo x > /dev/null");
    rig.wait_for(&format!(" {shell} exited with code 0"));
    let mounts = fs::read_to_string(rig.folder.path().join("mounts")).unwrap();
    for (target, kinds) in [
        ("/proc", &["proc"] as &[&str]),
        ("/sys", &["sysfs"]),
        ("/dev", &["devtmpfs", "tmpfs"]),
        ("/dev/pts", &["devpts"]),
        ("/dev/shm", &["tmpfs"]),
        ("/run", &["tmpfs"]),
        ("/sys/fs/cgroup", &["cgroup2"]),
    ] {
        let is_there = mounts.lines().any(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields[1] == target && kinds.contains(&fields[2])
        });
        assert!(is_there, "no {target} in\n{mounts}");
    }
    assert_eq!(rig.count("cannot mount"), 0);
    rig.shut_down();
    leaks.assert_unchanged(TIME);
}
