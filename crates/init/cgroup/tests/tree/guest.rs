//! The same tests, and those of the controllers, on a machine with cgroup v2 alone.

use std::process::Command;
use std::time::Duration;

use muster_cgroup::{CgroupPath, Hierarchy, Memory, Mode, Tree};
use muster_lab::guest::Guest;

use crate::{pid_of, place, wait_for};

const INSIDE: &str = "MUSTER_TEST_INSIDE_GUEST";

#[test]
fn a_guest_with_cgroup_v2_alone_passes_every_test() {
    if std::env::var(INSIDE).is_ok() {
        return;
    }
    muster_lab::require!(Tool("linux.uml"), Tool("busybox"));
    let outcome = Guest::uml()
        .share_host_tools()
        .host_file(std::env::current_exe().unwrap(), "/tree-tests")
        .script(format!(
            "{INSIDE}=1 /tree-tests --test-threads=1 >/out/log 2>&1"
        ))
        .run(Duration::from_secs(120))
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(log.contains("controllers_limit_and_count ... ok"), "{log}");
    assert!(
        log.contains("chains_that_never_stop_forking_are_ended_by_a_kill ... ok"),
        "{log}"
    );
}

/// Runs in the guest only: the host has no controllers to hand on.
#[test]
fn controllers_limit_and_count() {
    if std::env::var(INSIDE).is_err() {
        return;
    }
    let hierarchy = Hierarchy::detect().unwrap();
    assert_eq!(hierarchy.mode, Mode::Unified);
    let mut tree = Tree::open(&hierarchy, &CgroupPath::root()).unwrap();
    assert_eq!(tree.notice(), None);
    let own = rustix::process::getpid();
    assert_eq!(tree.settle(&[own]).unwrap(), "+cpu +io +memory +pids");
    // Whoever starts again finds the same root.
    assert_eq!(Hierarchy::detect().unwrap(), hierarchy);
    let unit = place("c.slice/c-d.slice/hog.service");
    tree.create(&unit).unwrap();
    for (attribute, value) in [
        ("memory.max", "16777216"),
        ("pids.max", "20"),
        ("cpu.weight", "50"),
    ] {
        tree.set(&unit, attribute, value).unwrap();
    }
    let hog = "read line; /usr/bin/head -c 67108864 /dev/zero | /usr/bin/tail";
    let mut child = Command::new("/bin/sh")
        .args(["-c", hog])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    tree.attach(&unit, pid_of(&child)).unwrap();
    assert!(matches!(
        tree.usage(&unit).unwrap().memory,
        Some(Memory::Charged(_))
    ));
    drop(child.stdin.take());
    child.wait().unwrap();
    wait_for("the kernel ends the hog", || {
        tree.oom_kills(&unit) > Some(0)
    });
    wait_for("nobody is left", || !tree.is_populated(&unit).unwrap());
    let usage = tree.usage(&unit).unwrap();
    assert!(
        usage.cpu_usec > Some(0) && usage.io_read.is_some(),
        "{usage:?}"
    );
    assert_eq!(usage.tasks, Some(0));
    tree.remove(&place("c.slice")).unwrap();
    // Back to where the other tests expect this process.
    tree.attach(&CgroupPath::root(), own).unwrap();
    tree.remove(&place("init.scope")).unwrap();
}
