//! Whose child a process is, and how it is found by whoever comes later.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use muster_exec::{Launch, Parent, Prepared, Slot, SlotEntry, Spawner};
use rustix::process::{Pid, getpid};

use crate::rig::{program, shell, spawn, wait};

const HELPER: &str = "MUSTER_TEST_SPAWNS_A_SIBLING";

/// Not a test by itself: the process that starts a sibling, whose parent is then the test that started this.
#[test]
fn helper_that_spawns_a_sibling() {
    let Ok(program_path) = std::env::var(HELPER) else {
        return;
    };
    let launch = Launch {
        parent: Parent::Same,
        ..Launch::default()
    };
    match spawn(&program(&program_path), &[], &launch) {
        Ok(spawned) => println!("spawned={}", spawned.pid),
        Err(error) => println!("failed={} {}", error.pid.unwrap(), error.exit_code()),
    }
}

/// Runs the helper and gives the pid and the rest of what it said.
fn helped(path: &str) -> (Pid, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "parents::helper_that_spawns_a_sibling",
            "--nocapture",
        ])
        .env(HELPER, path)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.split_once("ed="))
        .unwrap();
    let (pid, rest) = line.1.split_once(' ').unwrap_or((line.1, ""));
    (
        Pid::from_raw(pid.parse().unwrap()).unwrap(),
        rest.to_owned(),
    )
}

#[test]
fn a_sibling_is_reaped_by_the_common_parent() {
    let (pid, _) = helped("/usr/bin/true");
    // Only its parent can wait for it, so it is this process's child.
    assert_eq!(wait(pid).exit_status(), Some(0));
    let (pid, code) = helped("/no/such");
    assert_eq!(code, "203");
    assert_eq!(
        wait(pid).exit_status(),
        Some(203),
        "whoever reaps sees the code too"
    );
}

#[test]
fn the_slot_says_which_process_came_of_an_action() {
    let (mut slot, memory) = Slot::create().unwrap();
    let later = Slot::map(&memory).unwrap();
    let mut spawner = Spawner::new().unwrap();
    let context = program("/usr/bin/true");
    let mut prepared = Prepared::new(&context, &[]).unwrap();
    for action in [7, 8] {
        slot.begin(action);
        assert_eq!(later.entry(), SlotEntry { action, pid: None });
        let spawned = spawner.spawn(&mut prepared, &Launch::default(), &mut slot);
        let pid = spawned.unwrap().pid;
        let expected = SlotEntry {
            action,
            pid: Some(pid),
        };
        assert_eq!(later.entry(), expected);
        wait(pid);
    }
}

#[test]
fn a_process_has_a_descriptor_that_is_its_own() {
    let (reader, writer) = std::io::pipe().unwrap();
    let context = muster_exec::ExecContext {
        stdin: muster_exec::Stream::Fd(0),
        stdout: muster_exec::Stream::Null,
        ..shell("read line")
    };
    let start = || spawn(&context, &[reader.as_fd()], &Launch::default()).unwrap();
    let (one, other) = (start(), start());
    let again = rustix::process::pidfd_open(one.pid, rustix::process::PidfdFlags::empty()).unwrap();
    if one.pidfd_inode != 0 {
        assert_ne!(one.pidfd_inode, other.pidfd_inode);
        assert_eq!(rustix::fs::fstat(&again).unwrap().st_ino, one.pidfd_inode);
    }
    assert_ne!(one.pid, getpid());
    drop(writer);
    assert_eq!(wait(one.pid).exit_status(), Some(1));
    assert_eq!(wait(other.pid).exit_status(), Some(1));
}
