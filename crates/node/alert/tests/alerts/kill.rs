//! `kill -9` at every fault point: no entry of the journal is missed, and only what was being delivered is delivered again.

use std::path::Path;
use std::process::Command;

use muster_alert::FAULT_POINTS;
use muster_fault::{Point, Trial, matrix, test_program};

use crate::rig::*;

/// Entries of the scenario: more than one look takes.
const ENTRIES: usize = 200;
/// What the program delivers at a time.
const BATCH: usize = 16;

/// Runs the program to its end; what it has delivered.
fn run(
    folder: &Path,
    journal: &Path,
    last: &str,
    trial: Option<(&Trial, u64)>,
) -> Vec<(u64, String)> {
    let mut command = Command::new(test_program("alert_keeper"));
    command
        .args([folder, journal])
        .arg(last)
        .env_remove("MUSTER_FAULT");
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, muster_fault::Action::Kill);
    }
    let output = command.output().expect("the program starts");
    match trial {
        Some((trial, _)) => trial.assert_killed(output.status),
        None => assert!(output.status.success(), "{output:?}"),
    }
    let alert = |line: &str| {
        let (number, text) = line.strip_prefix("alert ")?.split_once(' ')?;
        Some((number.parse().expect("a number"), text.to_owned()))
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(alert).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn begin(folder: &Path, journal: &Path) {
    let node = Node::follow(folder, &[journal]).await;
    node.has_begun().await;
    node.stop().await;
}

fn scenario(trial: &Trial, nth: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    let mut log = Log::new(&journal, "system");
    begin(folder.path(), &journal);
    let expected: Vec<String> = (0..ENTRIES)
        .map(|number| format!("a.service: {}", letters(number)))
        .collect();
    for number in 0..ENTRIES {
        log.say(3, &letters(number));
        if number == ENTRIES / 2 {
            log.rotate();
        }
    }
    let last = expected.last().expect("some");
    let first = run(folder.path(), &journal, last, Some((trial, nth)));
    let second = run(folder.path(), &journal, last, None);

    let texts = |alerts: &[(u64, String)]| {
        alerts
            .iter()
            .map(|(_, text)| text.clone())
            .collect::<Vec<_>>()
    };
    let repeated = first.iter().filter(|alert| second.contains(alert)).count();
    assert!(
        repeated <= BATCH,
        "{}: {repeated} delivered twice",
        trial.point()
    );
    let mut all = texts(&first[..first.len() - repeated]);
    all.extend(texts(&second));
    assert_eq!(all, expected, "{}", trial.point());
}

#[test]
fn nothing_is_missed_and_only_the_last_batch_repeated_wherever_it_is_killed() {
    let commits = muster_store::FAULT_POINTS.iter().filter(|point| {
        ["store.job-done", "store.committed", "store.acknowledged"].contains(&point.name())
    });
    let points: Vec<Point> = FAULT_POINTS.iter().chain(commits).copied().collect();
    assert_eq!(points.len(), FAULT_POINTS.len() + 3);
    for nth in [1, 2] {
        matrix(&points, |trial| scenario(trial, nth));
    }
}
