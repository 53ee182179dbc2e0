//! `kill -9` of a writer at every fault point: what was appended is there, once, and the file is in
//! order after the next writer took it.

use std::path::Path;
use std::process::{Command, Stdio};

use muster_fault::{Action, Trial, matrix, test_program};
use muster_journal::{FAULT_POINTS, Journal, list_files};

use crate::support::{assert_verified, messages_backward, messages_forward};

/// Runs the writer to its end, or to its death; gives the lines that it said it had appended.
fn run(folder: &Path, count: u64, trial: Option<(&Trial, u64)>) -> Vec<String> {
    let mut command = Command::new(test_program("journal_writer"));
    command.arg(folder).arg(count.to_string());
    command.env_remove("MUSTER_FAULT").stderr(Stdio::inherit());
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    let output = command.output().expect("the writer starts");
    let said = String::from_utf8(output.stdout).expect("text");
    match trial {
        Some((trial, _)) => trial.assert_killed(output.status),
        None => assert!(
            output.status.success() && said.ends_with("closed\n"),
            "{said}"
        ),
    }
    said.lines()
        .filter(|line| line.starts_with("line "))
        .map(str::to_owned)
        .collect()
}

fn all_lines(folder: &Path) -> Vec<String> {
    messages_forward(&mut Journal::open_dir(folder).expect("open"))
}

fn scenario(trial: &Trial, nth: u64, count: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let appended = run(folder.path(), count, Some((trial, nth)));
    // Without anybody's repair a reader has every line that was appended, and at most one more.
    let read = all_lines(folder.path());
    assert!(
        read == appended
            || (read[..appended.len()] == appended && read.len() == appended.len() + 1),
        "{} of {} lines",
        read.len(),
        appended.len()
    );
    // The next writer goes on, and leaves a file in order whether it soon ends or fills it.
    let mut more = 0;
    for count in [20, count] {
        more += run(folder.path(), count, None).len();
        for file in list_files(folder.path()).expect("list") {
            assert_verified(&file.path);
        }
    }
    let lines = all_lines(folder.path());
    let expected: Vec<String> = (1..=lines.len()).map(|n| format!("line {n}")).collect();
    assert_eq!(lines, expected, "each line once, in order");
    assert!(lines.len() >= appended.len() + more);
    let mut journal = Journal::open_dir(folder.path()).expect("open");
    journal.seek_tail().expect("seek");
    let mut backward = messages_backward(&mut journal);
    backward.reverse();
    assert_eq!(backward, expected);
}

#[test]
fn nothing_appended_is_lost_and_every_file_is_in_order() {
    matrix(FAULT_POINTS, |trial| scenario(trial, 1, 700));
}

#[test]
fn also_not_in_the_middle_of_a_long_run() {
    let points = FAULT_POINTS.iter().filter(|point| {
        ["undo-valid", "half-linked", "linked"]
            .iter()
            .any(|name| point.name().ends_with(name))
    });
    for point in points {
        for nth in [2, 3, 6, 37, 149] {
            scenario(&Trial::new(*point), nth, 150);
        }
    }
}
