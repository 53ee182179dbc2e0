//! Groups of system calls beside those of systemd, where that is installed.

use std::collections::BTreeSet;
use std::process::Command;

use muster_seccomp::{group, groups};

/// Groups that versions after 252 added.
const NEWER: [&str; 1] = ["@sandbox"];
/// Calls that kernels have had only since then, and one that moved closer to the files that it opens.
const NEWER_CALLS: [&str; 16] = [
    "cachestat",
    "file_getattr",
    "file_setattr",
    "getxattrat",
    "listmount",
    "listxattrat",
    "lsm_get_self_attr",
    "lsm_list_modules",
    "lsm_set_self_attr",
    "mseal",
    "open_tree",
    "open_tree_attr",
    "removexattrat",
    "setxattrat",
    "statmount",
    "uretprobe",
];

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
