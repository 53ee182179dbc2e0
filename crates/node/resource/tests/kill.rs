//! `kill -9` at every fault point: who has what is what was acknowledged, or the step after it, and never two at once.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_fault::{Point, Trial, matrix, test_program};
use muster_resource::FAULT_POINTS;

const NOBODY: &str = "nobody";

/// Who has the share according to a run of the program, from its beginning to its end.
fn run(folder: &Path, trial: Option<&Trial>) -> Vec<String> {
    let mut command = Command::new(test_program("resource_taker"));
    command.arg(folder).env_remove("MUSTER_FAULT");
    if let Some(trial) = trial {
        trial.arm(&mut command);
    }
    let output = command.output().expect("the taker starts");
    let (mut holders, mut done) = (Vec::new(), false);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["held" | "took", holder] => holders.push((*holder).to_owned()),
            ["sorted"] | ["released", _] => holders.push(NOBODY.to_owned()),
            ["done"] => done = true,
            _ => panic!("{line}"),
        }
    }
    match trial {
        Some(trial) => trial.assert_killed(output.status),
        None => assert!(output.status.success() && done, "{output:?}"),
    }
    holders
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
        fs::write(
            folder.path().join("resources.json"),
            r#"[{"name": "r", "sharedCount": 1}]"#,
        )
        .expect("the file");
        // What a whole run does; the next one begins where it ends.
        run(folder.path(), None);
        let whole = run(folder.path(), None);
        let cut = run(folder.path(), Some(trial));
        assert_eq!(
            cut,
            whole[..cut.len()],
            "{}: a run is like another",
            trial.point()
        );
        let (last, next) = (&whole[cut.len() - 1], &whole[cut.len()]);
        let found = run(folder.path(), None).remove(0);
        match trial.point().name() {
            "resource.granted" | "resource.returning" | "resource.sorting" => {
                assert_eq!(&found, last)
            }
            "resource.taken" | "resource.released" | "resource.sorted" => assert_eq!(&found, next),
            _ => assert!(
                found == *last || found == *next,
                "{}: {found}",
                trial.point()
            ),
        }
    });
}
