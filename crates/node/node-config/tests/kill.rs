//! `kill -9` at every fault point: a configuration that was acknowledged is the one that is found, and what is found is whole.

use std::path::Path;
use std::process::Command;

use muster_fault::{Point, Trial, matrix, test_program};
use muster_node_config::FAULT_POINTS;

#[derive(Debug, Default)]
struct Said {
    found: u64,
    set: u64,
}

fn run(folder: &Path, trial: Option<(&Trial, u64)>) -> Said {
    let mut command = Command::new(test_program("node_config_setter"));
    command.arg(folder).env_remove("MUSTER_FAULT");
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, muster_fault::Action::Kill);
    }
    let output = command.output().expect("the setter starts");
    let (mut said, mut done) = (Said::default(), false);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let number = |text: &str| text.parse().expect("a number");
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["found", version, priority] => {
                assert_eq!(version, priority, "version and content belong together");
                said.found = number(version);
            }
            ["set", version] => said.set = number(version),
            ["done"] => done = true,
            _ => panic!("{line}"),
        }
    }
    match trial {
        Some((trial, _)) => trial.assert_killed(output.status),
        None => assert!(output.status.success() && done, "{output:?}"),
    }
    said
}

#[test]
fn nothing_acknowledged_is_lost_at_any_point() {
    let commits = muster_store::FAULT_POINTS.iter().filter(|point| {
        ["store.job-done", "store.committed", "store.acknowledged"].contains(&point.name())
    });
    let points: Vec<Point> = FAULT_POINTS.iter().chain(commits).copied().collect();
    assert_eq!(points.len(), FAULT_POINTS.len() + 3);
    matrix(&points, |trial| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut acknowledged = 0;
        // At the first installation, and at one that replaces another.
        for nth in [1, 2] {
            let said = run(folder.path(), Some((trial, nth)));
            assert!(said.found >= acknowledged, "{}: lost", trial.point());
            acknowledged = said.set.max(said.found);
        }
        let last = run(folder.path(), None);
        assert!(last.found >= acknowledged, "{}: lost", trial.point());
        let again = run(folder.path(), None);
        assert_eq!(again.found, 4);
    });
}
