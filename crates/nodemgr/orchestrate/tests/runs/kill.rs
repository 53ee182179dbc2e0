//! `kill -9`: whatever the moment, a run comes to its end, and leaves no machine.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_fault::{Action, Trial, matrix, test_program};
use muster_machines::testing;
use muster_provider::sim::{SimCloud, SimSettings};
use rand::RngExt as _;
use tempfile::TempDir;

use crate::fake::Deeds;

/// Two machines, a step that may be repeated and one that may not.
const BUILD: &str = "
name: build
machines: {a: {template: t, count: 2}}
steps:
- {name: prepare, repeatable: true, actions: [{run: {command: [do, ok, prepare]}}]}
- {name: build, actions: [{run: {command: [do, ok, build]}}]}
- {name: collect, when: always, repeatable: true, actions: [{run: {command: [do, ok, collect]}}]}
";

const OTHER: &str = "
name: other
machines: {a: {template: t}}
steps: [{name: hang, timeout: 200ms, actions: [{run: {command: [do, hang]}}]}]
";

fn steps() -> Vec<&'static str> {
    vec![
        "run", "a", BUILD, "cancel", "b", OTHER, "remove", "b", OTHER, "settle",
    ]
}

fn keeper(folder: &Path, steps: &[&str]) -> Command {
    let mut command = testing::command(&test_program("run_keeper"));
    command.arg(folder).args(steps);
    command
}

/// Runs to the end, and gives the code of the first run.
fn run(folder: &Path, steps: &[&str]) -> Option<u8> {
    let said = testing::run_to_end(&mut keeper(folder, steps));
    let over = said.iter().find_map(|line| line.strip_prefix("over a "));
    over.map(|code| code.parse().expect("a code"))
}

fn machines(folder: &Path) -> usize {
    let cloud = SimCloud::open(&folder.join("cloud"), SimSettings::default()).expect("the cloud");
    cloud.machines().len()
}

fn logs(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("runs")).map_or(0, Iterator::count)
}

/// At which of the times that a point is reached.
fn times() -> &'static [u64] {
    match std::env::var_os("MUSTER_SOAK") {
        Some(_) => &[1, 2, 3, 4, 6, 8],
        None => &[1, 3],
    }
}

#[test]
fn a_kill_at_any_point_ends_every_run_leaves_no_machine_and_repeats_nothing_unasked() {
    let reference = tempfile::tempdir().expect("a folder");
    assert_eq!(run(reference.path(), &steps()), Some(0));
    assert_eq!(machines(reference.path()), 0);

    let mut interrupted = 0;
    matrix(muster_orchestrate::FAULT_POINTS, |trial: &Trial| {
        for &nth in times() {
            let folder: TempDir = tempfile::tempdir().expect("a folder");
            let mut command = keeper(folder.path(), &steps());
            trial.arm_at(&mut command, nth, Action::Kill);
            let output = command.output().expect("the keeper starts");
            match nth {
                1 => trial.assert_killed(output.status),
                // A later time may never come.
                _ => assert!(output.status.success() || output.status.signal() == Some(9)),
            }
            let point = trial.point().name();
            // What was begun comes to its end by itself.
            run(folder.path(), &["settle"]);
            assert_eq!(machines(folder.path()), 0, "{point} ({nth})");
            // And whoever asks again with his key hears of it.
            let code = run(folder.path(), &steps()).expect("the first run's code");
            assert_eq!(machines(folder.path()), 0, "{point} ({nth})");
            let deeds = Deeds::new(&folder.path().join("deeds"));
            let built = deeds.count("ok build");
            match code {
                0 => assert_eq!(built, 2, "{point} ({nth})"),
                // The manager died while the command that must not be repeated was under way.
                125 => {
                    interrupted += 1;
                    assert!(built <= 2, "{point} ({nth})");
                }
                other => panic!("{other} at {point} ({nth})"),
            }
            assert!(
                deeds.count("ok collect") >= 2,
                "collected whatever happened"
            );
            // A manager that ends does not wait for old logs to be gone: the next one sees to that.
            run(folder.path(), &[]);
            assert_eq!(logs(folder.path()), 1, "{point} ({nth})");
        }
    });
    assert!(interrupted > 0, "no kill hit a command");
}

/// How many random kills.
fn rounds() -> usize {
    match std::env::var_os("MUSTER_SOAK") {
        Some(_) => 100,
        None => 6,
    }
}

#[test]
fn random_kills_lose_no_run_that_was_begun_and_leave_no_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut begun = Vec::new();
    for round in 1..=rounds() {
        let keys = ["x", "y", "z"].map(|name| format!("{name}{round}"));
        let steps: Vec<&str> = keys.iter().flat_map(|key| ["run", key, BUILD]).collect();
        let mut child = keeper(folder.path(), &steps)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the keeper starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = lines.next().expect("it says something");
        assert_eq!(first.expect("a line"), "started");
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..80)));
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        let said = lines.map_while(Result::ok);
        let keys = said.filter_map(|line| Some(line.strip_prefix("begun ")?.to_owned()));
        begun.extend(keys);
    }
    run(folder.path(), &["settle"]);
    assert_eq!(machines(folder.path()), 0);
    // What was begun is known by its key, and over: nothing is done for it again.
    let deeds = Deeds::new(&folder.path().join("deeds"));
    let before = deeds.lines().len();
    let steps: Vec<&str> = begun.iter().flat_map(|key| ["run", key, BUILD]).collect();
    run(folder.path(), &steps);
    assert_eq!(deeds.lines().len(), before);
}
