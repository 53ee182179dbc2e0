//! `kill -9`: whatever the moment, no machine is lost, made twice, or left behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_fault::{Action, Point, Trial, matrix, test_program};
use muster_lifecycle::State;
use muster_machines::testing::{self, records};
use muster_provider::sim::{SimCloud, SimSettings};
use rand::RngExt as _;
use tempfile::TempDir;

const STEPS: &[&str] = &[
    "order", "a", "order", "b", "stop", "a", "start", "a", "cancel", "c", "destroy", "b", "settle",
];

fn keeper(folder: &Path, steps: &[&str]) -> Command {
    let mut command = testing::command(&test_program("machine_keeper"));
    command.arg(folder).args(steps);
    command
}

/// Runs to the end.
fn run(folder: &Path, steps: &[&str]) -> Vec<String> {
    testing::run_to_end(&mut keeper(folder, steps))
}

/// Every machine of the cloud, by what the manager calls it, and every record that is not gone.
fn compare(folder: &Path) -> BTreeSet<(Option<String>, State)> {
    let cloud = SimCloud::open(&folder.join("cloud"), SimSettings::default()).unwrap();
    let records = records(folder).unwrap();
    let living = records.iter().filter(|it| it.state() != State::Terminated);
    let known: BTreeSet<_> = living
        .clone()
        .map(|it| {
            let resource = it.made().expect("settled").resource.clone();
            (it.id.clone(), resource)
        })
        .collect();
    let there: BTreeSet<_> = cloud
        .machines()
        .into_iter()
        .map(|it| (it.mark.expect("ours").machine, it.resource))
        .collect();
    assert_eq!(there, known, "in the cloud, and in the records");
    living
        .map(|it| (it.order.key.clone(), it.state()))
        .collect()
}

fn runs(key: &str) -> (Option<String>, State) {
    (Some(key.to_owned()), State::Running)
}

/// Points that the steps get to: those of this crate, and the cloud's own.
fn reachable() -> Vec<Point> {
    let own = muster_machines::FAULT_POINTS.iter();
    own.chain(muster_provider::FAULT_POINTS).copied().collect()
}

fn is_soak() -> bool {
    std::env::var_os("MUSTER_SOAK").is_some()
}

/// At which of the times that a point is reached.
fn times() -> &'static [u64] {
    if is_soak() { &[1, 2, 3, 5] } else { &[1, 3] }
}

#[test]
fn a_kill_at_any_point_loses_no_machine_and_leaves_none_behind() {
    let reference = tempfile::tempdir().unwrap();
    run(reference.path(), STEPS);
    let expected = BTreeSet::from([runs("a")]);
    assert_eq!(compare(reference.path()), expected);

    matrix(&reachable(), |trial: &Trial| {
        for &nth in times() {
            let folder: TempDir = tempfile::tempdir().unwrap();
            let mut command = keeper(folder.path(), STEPS);
            trial.arm_at(&mut command, nth, Action::Kill);
            let output = command.output().expect("the keeper starts");
            match nth {
                1 => trial.assert_killed(output.status),
                // A later time may never come.
                _ => assert!(output.status.success() || output.status.signal() == Some(9)),
            }
            // What is left of it is known, wherever it was killed.
            run(folder.path(), &["settle"]);
            compare(folder.path());
            // The next run comes to the same end: keys make orders idempotent.
            run(folder.path(), STEPS);
            assert_eq!(
                compare(folder.path()),
                expected,
                "{} ({nth})",
                trial.point().name()
            );
        }
    });
}

/// How many random kills.
fn rounds() -> usize {
    if is_soak() { 100 } else { 12 }
}

#[test]
fn random_kills_leave_no_unknown_machine_and_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut orders = 0;
    for round in 1..=rounds() {
        let seed = round.to_string();
        let mut child = keeper(folder.path(), &["churn", &seed])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the keeper starts");
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().expect("it says something").unwrap();
        assert_eq!(first, "started");
        // Anywhere between two things that it says.
        let heard = rand::rng().random_range(0..8);
        let mut said: Vec<String> = lines.by_ref().take(heard).map_while(Result::ok).collect();
        let lived = rand::rng().random_range(0..20);
        std::thread::sleep(Duration::from_millis(lived));
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        said.extend(lines.map_while(Result::ok));
        let with = |word: &str| -> BTreeSet<String> {
            let keys = said.iter().filter_map(|line| line.strip_prefix(word));
            keys.map(ToOwned::to_owned).collect()
        };
        let (ordered, destroyed) = (with("ordered "), with("destroyed "));
        orders += ordered.len();
        let before_last = said.iter().rfind(|line| line.starts_with("ordered "));
        run(folder.path(), &["settle"]);
        let there: BTreeSet<String> = compare(folder.path())
            .into_iter()
            .filter_map(|(key, _)| key)
            .collect();
        for key in &destroyed {
            assert!(!there.contains(key), "{key} was destroyed");
        }
        for key in ordered.difference(&destroyed) {
            // The last one may have been about to be destroyed.
            let last = before_last.is_some_and(|line| line.ends_with(key));
            assert!(last || there.contains(key), "{key} was ordered");
        }
    }
    println!("{orders} orders in {} rounds", rounds());
    assert!(orders >= rounds(), "there was hardly anything to kill");
}
