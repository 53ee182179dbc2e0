//! Groups of system calls beside those of systemd, where that is installed.

use std::collections::BTreeSet;
use std::process::Command;

use muster_seccomp::{NEWER_CALLS, group, groups};

/// Groups that versions after 252 added.
const NEWER: [&str; 1] = ["@sandbox"];

/// Every group of systemd 252 with its members, as it prints them itself.
#[test]
fn groups_are_those_of_systemd() {
    let Ok(output) = Command::new("systemd-analyze")
        .arg("syscall-filter")
        .output()
    else {
        println!("groups_are_those_of_systemd: systemd is not installed");
        return;
    };
    let version = Command::new("systemd-analyze").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|version| version.starts_with("systemd 252")) {
        println!("groups_are_those_of_systemd: another version of systemd is installed");
        return;
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let mut seen = BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('@') {
            continue;
        }
        let mut theirs = BTreeSet::new();
        while let Some(member) = lines.next_if(|line| line.starts_with(' ')) {
            let member = member.trim();
            if !member.starts_with('#') {
                theirs.insert(member);
            }
        }
        let ours: BTreeSet<&str> = group(line).into_iter().flatten().collect();
        let newer = |name: &&str| NEWER_CALLS.contains(name) && !theirs.contains(name);
        let then: BTreeSet<&str> = ours.iter().copied().filter(|name| !newer(name)).collect();
        assert_eq!(then, theirs, "{line}");
        seen.insert(line);
    }
    let old = groups().filter(|name| !NEWER.contains(name));
    assert_eq!(seen, old.collect());
}
