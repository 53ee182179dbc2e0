//! Processes that somebody took pains to hide.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use muster_cgroup::CgroupError;
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use super::*;

/// More than fit into a path together, each with the longest name there is.
const LEVELS: usize = 20;

/// Puts a process into the deepest of these groups, each below the one before.
fn run_in(rig: &Rig, unit: &CgroupPath, names: &[Vec<u8>]) -> Child {
    let child = rig.run(unit, "exec sleep 1000");
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder: OwnedFd = open(rig.tree.folder(unit).unwrap(), flags, Mode::empty()).unwrap();
    for name in names {
        let name = CString::new(&**name).unwrap();
        mkdirat(&folder, &name, Mode::from_raw_mode(0o755)).unwrap();
        folder = openat(&folder, &name, flags, Mode::empty()).unwrap();
    }
    let procs = openat(&folder, "cgroup.procs", OFlags::WRONLY, Mode::empty()).unwrap();
    rustix::io::write(&procs, child.id().to_string().as_bytes()).unwrap();
    child
}

#[test]
fn no_group_is_hidden_by_its_name_or_its_depth() {
    let rig = rig!("no_group_is_hidden_by_its_name_or_its_depth");
    let deep: Vec<Vec<u8>> = (0..40).map(|_| b"d".to_vec()).collect();
    let long = (0..LEVELS).map(|_| vec![b'n'; 255]).collect();
    let unit = place("a.service");
    for names in [vec![b"\xff".to_vec()], deep, long] {
        let mut child = run_in(&rig, &unit, &names);
        let pid = pid_of(&child);
        assert_eq!(rig.tree.processes(&unit).unwrap(), [pid]);
        let left = rig.tree.leftovers().unwrap();
        assert_eq!(left.len(), 1);
        assert!(left[0].path.is_within(&unit), "{:?}", left[0].path);
        assert_eq!(left[0].processes, [pid]);
        let error = rig.tree.remove(&unit).unwrap_err();
        assert!(matches!(&error, CgroupError::Busy { .. }), "{error}");
        assert_eq!(rig.tree.signal(&unit, Signal::TERM, &[]).unwrap(), 1);
        child.wait().unwrap();
        rig.wait_populated(&unit, false);
        rig.tree.remove(&unit).unwrap();
        assert!(!rig.tree.folder(&unit).unwrap().exists());
    }
}

/// As a shell of a session of its own, whose first process ends.
fn orphan(tree: &Tree, unit: &CgroupPath) -> Pid {
    let mut leader = Command::new("setsid")
        .args(["sh", "-c", "sleep 1000 >/dev/null & echo $!; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    tree.record(unit, pid_of(&leader));
    let mut line = String::new();
    let mut output = std::io::BufReader::new(leader.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    drop(leader.stdin.take());
    let pid = pid_of(&leader);
    leader.wait().unwrap();
    tree.reaped(pid);
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

#[test]
fn without_cgroups_a_unit_with_processes_stays_known() {
    let tree = Tree::open(&Hierarchy::sessions(), &CgroupPath::root()).unwrap();
    let unit = place("a.service");
    tree.create(&unit).unwrap();
    let child = orphan(&tree, &unit);
    assert_eq!(tree.processes(&unit).unwrap(), [child]);
    let error = tree.remove(&unit).unwrap_err();
    assert!(matches!(&error, CgroupError::Busy { path } if *path == unit));
    assert_eq!(tree.processes(&unit).unwrap(), [child], "nothing was lost");
    assert_eq!(tree.signal(&unit, Signal::TERM, &[]).unwrap(), 1);
    wait_for("nobody is left", || !tree.is_populated(&unit).unwrap());
    tree.remove(&unit).unwrap();
}

/// Both versions of the kernel's numbers: the leader's own, and that of a session that others were left in.
#[test]
fn without_cgroups_a_session_that_is_over_is_forgotten() {
    let tree = Tree::open(&Hierarchy::sessions(), &CgroupPath::root()).unwrap();
    let unit = place("a.service");
    let child = orphan(&tree, &unit);
    assert_eq!(tree.signal(&unit, Signal::KILL, &[]).unwrap(), 1);
    wait_for("nobody is left", || !tree.is_populated(&unit).unwrap());
    tree.reaped(child);
    let mut own = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = pid_of(&own);
    tree.record(&unit, pid);
    assert_eq!(tree.processes(&unit).unwrap(), [pid]);
    // Another unit's now, whatever it was before.
    tree.record(&place("b.service"), pid);
    assert!(tree.processes(&unit).unwrap().is_empty());
    own.kill().unwrap();
    own.wait().unwrap();
    assert!(!tree.is_populated(&place("b.service")).unwrap());
}
