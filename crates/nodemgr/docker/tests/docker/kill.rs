//! `kill -9` of the manager: whatever the moment, no container is lost, made twice, or left behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_fault::{Action, Point, Trial, matrix, test_program};
use muster_lab::docker::Traces;
use muster_lifecycle::State;
use muster_machines::Record;
use muster_machines::testing::{self, records};
use rand::RngExt as _;

use crate::rig::Docker;

const STEPS: &[&str] = &[
    "order", "a", "order", "b", "stop", "a", "start", "a", "cancel", "c", "destroy", "b", "settle",
];

fn is_soak() -> bool {
    std::env::var_os("MUSTER_SOAK").is_some()
}

fn keeper(docker: &Docker, folder: &Path, steps: &[&str]) -> Command {
    let mut command = testing::command(&test_program("docker_keeper"));
    command
        .arg(docker.endpoint().to_string())
        .arg(folder)
        .args(steps);
    command
}

/// Runs to the end.
fn run(docker: &Docker, folder: &Path, steps: &[&str]) {
    testing::run_to_end(&mut keeper(docker, folder, steps));
}

/// Compares the engine's containers with the manager's records, and gives the living ones by their keys.
fn compare(docker: &Docker, folder: &Path) -> BTreeSet<(String, State)> {
    let records = records(folder).unwrap().into_iter();
    let living: Vec<Record> = records
        .filter(|it| it.state() != State::Terminated)
        .collect();
    let resource = |it: &Record| it.made().expect("settled").resource.to_string();
    let known: BTreeSet<String> = living.iter().map(resource).collect();
    assert_eq!(
        docker.containers("label=muster-manager"),
        known,
        "in the engine, and in the records"
    );
    let keyed = living
        .iter()
        .map(|it| (it.order.key.clone().expect("keyed"), it.state()));
    keyed.collect()
}

/// Destroys everything, and looks whether the engine is as it was.
fn clean(docker: &Docker, folder: &Path, before: &Traces) {
    let keys: Vec<String> = compare(docker, folder)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let steps: Vec<&str> = keys.iter().flat_map(|key| ["destroy", key]).collect();
    run(docker, folder, &steps);
    docker.assert_traces(before);
}

/// Our own points in every test run; those of the registry as well where there is time.
fn points() -> Vec<Point> {
    let all = is_soak().then_some(muster_machines::FAULT_POINTS);
    let all = all.into_iter().flatten();
    muster_docker::FAULT_POINTS
        .iter()
        .chain(all)
        .copied()
        .collect()
}

#[test]
fn a_kill_at_any_point_loses_no_container_and_leaves_none_behind() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let before = docker.traces();
    let expected = BTreeSet::from([("a".to_owned(), State::Running)]);
    matrix(&points(), |trial: &Trial| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = keeper(&docker, folder.path(), STEPS);
        trial.arm_at(&mut command, 1, Action::Kill);
        let output = command.output().expect("the keeper starts");
        trial.assert_killed(output.status);
        // What is left of it is known, wherever it was killed.
        run(&docker, folder.path(), &["settle"]);
        compare(&docker, folder.path());
        // The next run comes to the same end: keys make orders idempotent.
        run(&docker, folder.path(), STEPS);
        assert_eq!(
            compare(&docker, folder.path()),
            expected,
            "{}",
            trial.point().name()
        );
        clean(&docker, folder.path(), &before);
    });
}

#[test]
fn random_kills_leave_no_unknown_container_and_lose_nothing_acknowledged() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let before = docker.traces();
    let folder = tempfile::tempdir().unwrap();
    let rounds = if is_soak() { 20 } else { 2 };
    let mut orders = 0;
    for _ in 0..rounds {
        let mut child = keeper(&docker, folder.path(), &["churn", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the keeper starts");
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        assert_eq!(lines.next().expect("it says something").unwrap(), "started");
        // Chance is the point here: it is killed in the middle of whatever it does then, but not before it does anything.
        let heard = rand::rng().random_range(1..4);
        let mut said: Vec<String> = lines.by_ref().take(heard).map_while(Result::ok).collect();
        let lived = rand::rng().random_range(0..1000);
        std::thread::sleep(Duration::from_millis(lived));
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        said.extend(lines.map_while(Result::ok));
        let with = |word: &str| -> Vec<String> {
            let keys = said.iter().filter_map(|line| line.strip_prefix(word));
            keys.map(ToOwned::to_owned).collect()
        };
        let (ordered, destroyed) = (with("ordered "), with("destroyed "));
        orders += ordered.len();
        run(&docker, folder.path(), &["settle"]);
        let there: BTreeSet<String> = compare(&docker, folder.path())
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        for key in &destroyed {
            assert!(!there.contains(key), "{key} was destroyed");
        }
        // The last one may have been about to be destroyed.
        for key in ordered
            .iter()
            .rev()
            .skip(1)
            .filter(|key| !destroyed.contains(key))
        {
            assert!(there.contains(key), "{key} was ordered");
        }
    }
    println!("{orders} orders in {rounds} rounds");
    assert!(orders >= rounds, "there was hardly anything to kill");
    clean(&docker, folder.path(), &before);
}
