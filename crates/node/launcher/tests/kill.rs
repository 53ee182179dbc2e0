//! `kill -9` of the launcher at every fault point: the same end, nothing started twice, and the healthy are left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_fault::{Action, Trial, matrix, test_program};
use muster_launcher::FAULT_POINTS;

/// Item to `(run, version)`.
type Running = BTreeMap<String, (u64, String)>;

fn running(folder: &Path) -> Running {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder.join("running")).expect("the folder") {
        let entry = entry.expect("an entry");
        let text = fs::read_to_string(entry.path()).expect("a file");
        let mut lines = text.lines().map(str::to_owned);
        let (run, version) = (
            lines.next().expect("a run"),
            lines.next().expect("a version"),
        );
        let name = entry.file_name().into_string().expect("a name");
        found.insert(name, (run.parse().expect("a number"), version));
    }
    found
}

fn versions(running: &Running) -> String {
    let pairs: Vec<String> = running
        .iter()
        .map(|(item, (_, version))| format!("{item}={version}"))
        .collect();
    pairs.join(",")
}

/// Runs the launcher until it has settled, or was killed. Whether it came to its end.
fn launcher(folder: &Path, set: Option<&str>, trial: Option<(&Trial, u64)>) -> bool {
    let mut command = Command::new(test_program("launcher_of_files"));
    command.arg(folder).args(set).env_remove("MUSTER_FAULT");
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    let output = command.output().expect("the launcher starts");
    let ended = String::from_utf8_lossy(&output.stdout).ends_with("ended\n");
    match trial {
        Some((trial, _)) if !ended => trial.assert_killed(output.status),
        _ => assert!(ended, "{}", String::from_utf8_lossy(&output.stderr)),
    }
    ended
}

#[test]
fn a_kill_at_any_point_changes_nothing_in_the_end() {
    matrix(FAULT_POINTS, |trial| {
        for nth in 1..=20 {
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path();
            launcher(folder, Some("1=1,2=1,3=1"), None);
            let before = running(folder);
            assert_eq!(versions(&before), "1=1,2=1,3=1");
            if launcher(folder, Some("1=1,2=2,4=1"), Some((trial, nth))) {
                // The point is not reached that often.
                assert!(nth > 1, "never reached");
                break;
            }
            // Without a controller: what was acknowledged holds, and nothing half stays.
            launcher(folder, None, None);
            let alone = running(folder);
            let reached: &[&str] = &["1=1,2=1,3=1", "1=1,2=2,4=1"];
            assert!(
                reached.contains(&versions(&alone).as_str()),
                "{}: {}",
                trial.point().name(),
                versions(&alone)
            );
            launcher(folder, Some("1=1,2=2,4=1"), None);
            let after = running(folder);
            assert_eq!(versions(&after), "1=1,2=2,4=1");
            assert_eq!(after["1"], before["1"], "the healthy one was touched");
        }
    });
}

#[test]
fn what_runs_outlives_a_lost_database_until_a_set_arrives() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    launcher(folder, Some("1=1,2=1"), None);
    let before = running(folder);
    for lost in fs::read_dir(folder).expect("the folder") {
        let lost = lost.expect("an entry").path();
        if lost.is_file() {
            fs::remove_file(lost).expect("a file of the database");
        }
    }
    fs::remove_dir_all(folder.join("numbers")).expect("numbers are given anew");
    // However often it starts before anybody tells it what should run.
    for _ in 0..2 {
        launcher(folder, None, None);
        assert_eq!(running(folder), before);
    }
    launcher(folder, Some("1=1,3=1"), None);
    assert_eq!(versions(&running(folder)), "1=1,3=1");
}

#[test]
fn ends_while_no_launcher_was_there_are_counted_by_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    launcher(folder, Some("1=1"), None);
    let before = running(folder);
    let file = folder.join("running/1");
    let fresh = fs::read_to_string(&file).expect("its file");
    // Meanwhile it ends twice, and runs again: nobody touches it.
    for _ in 0..2 {
        fs::write(&file, format!("{fresh}2\n")).expect("its file");
        launcher(folder, None, None);
        assert_eq!(running(folder), before);
    }
    // The third time is once too often.
    fs::write(&file, format!("{fresh}3\nwaits\n")).expect("its file");
    launcher(folder, None, None);
    assert!(running(folder).is_empty());
}
