//! Groups that were given away, and what whoever has them may do with the one that commands get beside theirs.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use muster_cgroup::{CgroupPath, Hierarchy, SpawnTarget, Tree};

use crate::guest::INSIDE;
use crate::{PATIENCE, pid_of, place};

const DELEGATE: u32 = 4711;

/// What the delegate does in the group's folder.
fn does(folder: &Path, script: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-ec", script]).current_dir(folder);
    let done = shell.uid(DELEGATE).gid(DELEGATE).status().unwrap();
    assert!(done.success(), "{script}: {done}");
}

/// The group for commands is ours, with all of its files, and runs.
fn has_room(tree: &Tree, unit: &CgroupPath, folder: &Path) {
    let target = tree.target(unit).unwrap();
    assert!(matches!(target, SpawnTarget::Born(_)), "{target:?}");
    let beside = folder.join(".control");
    for entry in std::fs::read_dir(&beside).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().uid(), 0, "{entry:?}");
    }
    assert_eq!(beside.metadata().unwrap().uid(), 0);
    let freeze = std::fs::read_to_string(beside.join("cgroup.freeze")).unwrap();
    assert_eq!(freeze, "0\n");
}

/// Runs in the guest only: the host has no controllers to hand on.
#[test]
fn room_for_commands_is_never_the_delegates() {
    if std::env::var(INSIDE).is_err() {
        return;
    }
    let hierarchy = Hierarchy::detect().unwrap();
    let mut tree = Tree::open(&hierarchy, &CgroupPath::root()).unwrap();
    tree.settle(&[rustix::process::getpid()]).unwrap();
    let unit = place("w.slice/x.service");
    tree.create(&unit).unwrap();
    tree.give_to(&unit, DELEGATE, DELEGATE).unwrap();
    let folder = tree.folder(&unit).unwrap();
    does(&folder, "echo +pids >cgroup.subtree_control");
    // Nobody has made it, or the delegate has, and has frozen it.
    has_room(&tree, &unit, &folder);
    does(
        &folder,
        "rmdir .control; mkdir .control; echo 1 >.control/cgroup.freeze",
    );
    has_room(&tree, &unit, &folder);
    // It can be made anew only while nobody is in it.
    does(&folder, "rmdir .control; mkdir .control");
    let beside = place("w.slice/x.service/.control");
    let mut child = Command::new("/usr/bin/sleep").arg("1000").spawn().unwrap();
    tree.attach(&beside, pid_of(&child)).unwrap();
    does(&folder, "echo 1 >.control/cgroup.freeze");
    assert!(tree.wait_frozen(&beside, true, PATIENCE).unwrap());
    has_room(&tree, &unit, &folder);
    // Ours, too, can have been frozen: what is open for writing stays so.
    std::fs::write(folder.join(".control/cgroup.freeze"), "1").unwrap();
    has_room(&tree, &unit, &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    tree.remove(&unit).unwrap();
}
