use super::*;
use crate::net::Net;
use crate::program::Program;

const TIME: Duration = Duration::from_secs(30);

fn appeared(before: &Snapshot) -> Vec<String> {
    let changes = before.changes().unwrap();
    assert!(changes.vanished.is_empty(), "{changes}");
    changes.appeared
}

#[test]
fn process_is_seen_while_it_runs_and_not_after() {
    crate::alone!();
    let before = Snapshot::take().unwrap();
    let process = Program::new("/bin/sleep").arg("600").start().unwrap();
    let pid = process.pid();
    let seen = appeared(&before);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(
        seen[0].starts_with(&format!("process {pid} (sleep, started at ")),
        "{seen:?}"
    );
    drop(process);
    before.assert_unchanged(TIME);
}

#[test]
fn process_that_left_the_family_is_seen_all_the_same() {
    crate::alone!();
    let before = Snapshot::take().unwrap();
    let script = "setsid sh -c 'echo up; exec sleep 600' & exit 0";
    let mut process = Program::new("/bin/sh")
        .args(["-c", script])
        .start()
        .unwrap();
    process.wait_for_line("up", TIME).unwrap();
    process.wait(TIME).unwrap();
    crate::poll_until(TIME, "sleep is seen", || {
        let seen = appeared(&before);
        seen.len() == 1 && seen[0].contains("(sleep,")
    });
    drop(process);
    before.assert_unchanged(TIME);
}

#[test]
fn dead_child_that_nobody_reaps_is_a_leak() {
    crate::alone!();
    let before = Snapshot::take().unwrap();
    let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
    crate::poll_until(TIME, "the dead child is seen", || {
        appeared(&before)
            .iter()
            .any(|fact| fact.contains("dead but not reaped"))
    });
    child.wait().unwrap();
    before.assert_unchanged(TIME);
}

#[test]
fn leak_fails_with_the_difference() {
    crate::alone!();
    let before = Snapshot::take().unwrap();
    let process = Program::new("/bin/sleep").arg("600").start().unwrap();
    let check = std::panic::AssertUnwindSafe(|| before.assert_unchanged(Duration::from_millis(20)));
    let panic = std::panic::catch_unwind(check).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.starts_with("not as before within 20ms:\n  + process "),
        "{message}"
    );
    drop(process);
}

#[test]
fn files_are_compared_in_watched_folders_only() {
    crate::alone!();
    let (watched, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = watched.path().join("old");
    std::fs::write(&old, "").unwrap();
    let before = Watch::own().folder(watched.path()).take().unwrap();
    std::fs::write(other.path().join("unseen"), "").unwrap();
    before.assert_unchanged(Duration::ZERO);

    std::fs::create_dir(watched.path().join("new")).unwrap();
    std::fs::remove_file(&old).unwrap();
    let changes = before.changes().unwrap();
    let expected = format!(
        "  + folder {}/new\n  - file {}\n",
        watched.path().display(),
        old.display()
    );
    assert_eq!(changes.to_string(), expected);
}

#[test]
fn control_groups_are_compared_below_a_group_that_need_not_exist() {
    crate::alone!();
    let tree = tempfile::tempdir().unwrap();
    let group = tree.path().join("test.slice");
    let before = Watch::own().cgroups(&group).take().unwrap();
    std::fs::create_dir_all(group.join("a/b")).unwrap();
    std::fs::write(group.join("cgroup.procs"), "").unwrap();
    let expected = ["a", "a/b"].map(|name| format!("control group {}/{name}", group.display()));
    assert_eq!(appeared(&before), expected);
}

#[test]
fn mounts_are_seen_in_watched_folders() {
    crate::require!(Root, Tool("mount"));
    crate::alone!();
    let dir = tempfile::tempdir().unwrap();
    let point = dir.path().join("with blank");
    std::fs::create_dir(&point).unwrap();
    let before = Watch::own().folder(dir.path()).take().unwrap();
    let mounted = Mounted::tmpfs(&point);
    assert_eq!(
        appeared(&before),
        [format!("mount {} (tmpfs)", point.display())]
    );
    drop(mounted);
    before.assert_unchanged(TIME);
}

/// A mount that goes even when the test panics.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn tmpfs(point: &'a Path) -> Self {
        let mut mount = std::process::Command::new("mount");
        crate::command::run_tool(mount.args(["-t", "tmpfs", "lab"]).arg(point), "").unwrap();
        Self(point)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .status();
    }
}

#[test]
fn links_and_rules_are_seen_in_a_network_of_ones_own() {
    crate::require!(Root, NetNs);
    crate::alone!();
    let net = Net::new(&["main"]).unwrap();
    let run = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        crate::command::run_tool(command.args(args), "").unwrap();
    };
    net.host("main")
        .run(|| {
            let before = Snapshot::take().unwrap();
            run("ip", &["link", "add", "leak0", "type", "bridge"]);
            run("nft", &["add", "table", "inet", "leaky"]);
            assert_eq!(
                appeared(&before),
                ["link leak0", "packet filter table inet leaky"]
            );
            run("ip", &["link", "delete", "leak0"]);
            run("nft", &["delete", "table", "inet", "leaky"]);
            before.assert_unchanged(TIME);
        })
        .unwrap();
}

#[test]
fn machine_wide_snapshot_covers_the_machines_links() {
    crate::require!(Root, NetNs);
    let snapshot = Watch::own().machine_wide().take().unwrap();
    assert!(snapshot.facts.contains("link lo"), "{:?}", snapshot.facts);
    assert!(
        snapshot
            .facts
            .iter()
            .any(|fact| fact.starts_with("mount / ("))
    );
    assert!(!Snapshot::take().unwrap().facts.contains("link lo"));
}
