//! `kill -9` of the updates at every fault point: the same end, what was accepted holds, and the healthy are left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_desired::FAULT_POINTS;
use muster_fault::{Action, Trial, matrix, test_program};

/// Item to `(version, starts)`.
type Running = BTreeMap<String, (String, u64)>;

fn running(folder: &Path) -> Running {
    let mut found = BTreeMap::new();
    for node in ["node-1", "node-2"] {
        for entry in fs::read_dir(folder.join(node)).expect("the folder") {
            let entry = entry.expect("an entry");
            let text = fs::read_to_string(entry.path()).expect("a file");
            let (version, starts) = text.trim_end().split_once('\n').expect("two lines");
            let name = entry.file_name().into_string().expect("a name");
            let starts = starts.parse().expect("a number");
            let twice = found.insert(name, (version.to_owned(), starts));
            assert_eq!(twice, None, "it runs on both nodes");
        }
    }
    found
}

fn versions(running: &Running) -> String {
    let pairs: Vec<String> = running
        .iter()
        .map(|(item, (version, _))| format!("{item}={version}"))
        .collect();
    pairs.join(",")
}

struct Run {
    accepted: bool,
    ended: bool,
}

/// Runs until the update is over, or it was killed.
fn updates(folder: &Path, set: Option<&str>, trial: Option<(&Trial, u64)>) -> Run {
    let mut command = Command::new(test_program("updates_of_files"));
    command.arg(folder).args(set).env_remove("MUSTER_FAULT");
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let run = Run {
        accepted: text.contains("accepted\n"),
        ended: text.ends_with("ended\n"),
    };
    match trial {
        Some((trial, _)) if !run.ended => trial.assert_killed(output.status),
        _ => assert!(
            run.ended,
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
    assert!(!text.contains("failed: "), "{text}");
    run
}

#[test]
fn a_kill_at_any_point_changes_nothing_in_the_end() {
    const OLD: &str = "1=1,2=1,3=1";
    const NEW: &str = "1=1,2=2,4=1";
    // Where events come together a step can be passed through within one turn, so that its point is not there to be reached.
    const TRIES: usize = 20;
    matrix(FAULT_POINTS, |trial| {
        let mut nth = 1;
        let mut tries = 0;
        while nth <= 40 {
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path();
            updates(folder, Some(OLD), None);
            let before = running(folder);
            assert_eq!(versions(&before), OLD);
            let run = updates(folder, Some(NEW), Some((trial, nth)));
            if run.ended && nth > 1 {
                // The point is not reached that often.
                break;
            }
            if run.ended {
                tries += 1;
                assert!(tries < TRIES, "never reached");
                continue;
            }
            nth += 1;
            // Nobody asks again: what was accepted holds, and nothing half stays.
            updates(folder, None, None);
            let alone = versions(&running(folder));
            let point = trial.point().name();
            assert!(
                alone == NEW || (alone == OLD && !run.accepted),
                "{point}: {alone}"
            );
            updates(folder, Some(NEW), None);
            let after = running(folder);
            assert_eq!(versions(&after), NEW, "{point}");
            assert_eq!(
                after["1"], before["1"],
                "{point}: the healthy one was touched"
            );
            assert_eq!(
                after["2"].1, 2,
                "{point}: it was started once for each version"
            );
        }
    });
}
