//! `kill -9` of a manager, at every step and at random moments: no machine is made twice, and none is forgotten.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use muster_aws::testing::{FakeEc2, FakeSettings};
use muster_fault::{Action, Point, Trial, matrix};
use muster_lifecycle::{Halt, State};
use muster_machines::testing::{records, run_to_end};
use rand::RngExt as _;

use crate::credentials::{keeper, with_environment};

/// How many random kills.
fn rounds() -> usize {
    match std::env::var_os("MUSTER_SOAK") {
        Some(_) => 100,
        None => 12,
    }
}

#[test]
fn random_kills_leave_no_unknown_machine() {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeEc2::start(FakeSettings {
        shown_after: Duration::from_millis(10),
        on_demand: [("t3.micro".to_owned(), 3)].into(),
        spot: [("c6i.large".to_owned(), 2), ("m6i.large".to_owned(), 2)].into(),
        ..FakeSettings::default()
    });
    for round in 0..rounds() {
        let mut child = with_environment(&mut keeper(folder.path(), &fake, &["churn"]))
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let started = lines.next().map(|line| line.unwrap());
        assert_eq!(started.as_deref(), Some("started"), "round {round}");
        let orders = rand::rng().random_range(1..8);
        for _ in 0..orders {
            lines.next();
        }
        // Anywhere between two things that it says.
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..20)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = with_environment(&mut keeper(folder.path(), &fake, &["left"]))
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let known: BTreeSet<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("left "))
        .map(|resource| resource.split('@').next().unwrap_or_default().to_owned())
        .collect();
    let machines = fake.machines();
    let there: BTreeSet<String> = machines.iter().map(|it| it.id.clone()).collect();
    assert_eq!(there, known, "in the cloud, and in the records");
    assert!(machines.iter().all(|it| it.state == State::Running));
    // Every token made one machine, also of those that are gone.
    let all = fake.all_machines();
    let tokens: BTreeSet<_> = all.iter().map(|it| &it.tags["muster-token"]).collect();
    println!("{} machines were made, {} are left", all.len(), there.len());
    assert_eq!(tokens.len(), all.len(), "a token made two machines");
    assert!(
        all.len() >= rounds() / 2,
        "there was hardly anything to kill"
    );
}

const STEPS: &[&str] = &[
    "order", "a", "order", "b", "order", "spot", "stop", "b", "cancel", "c", "destroy", "a",
    "settle",
];

/// Our own points in every test run; those of the registry as well where there is time.
fn points() -> Vec<Point> {
    let all = std::env::var_os("MUSTER_SOAK").map(|_| muster_machines::FAULT_POINTS);
    let all = all.into_iter().flatten();
    muster_aws::FAULT_POINTS
        .iter()
        .chain(all)
        .copied()
        .collect()
}

/// Compares the account's machines with the manager's records, and gives the living ones by their keys.
fn compare(fake: &FakeEc2, folder: &Path) -> BTreeSet<(String, String)> {
    let mut living = records(folder).expect("the keeper's records");
    living.retain(|it| it.state() != State::Terminated);
    let ids = living.iter().map(|it| {
        let resource = it.made().expect("settled").resource.to_string();
        resource.split('@').next().unwrap_or_default().to_owned()
    });
    let known: BTreeSet<String> = ids.collect();
    let going = |state: State| matches!(state, State::ShuttingDown | State::Terminated);
    let machines = fake.machines().into_iter();
    let there: BTreeSet<String> = machines
        .filter(|it| !going(it.state))
        .map(|it| it.id)
        .collect();
    assert_eq!(there, known, "in the account, and in the records");
    let keyed = living.iter().map(|it| {
        let key = it.order.key.clone().expect("keyed");
        (key, it.state().to_string())
    });
    keyed.collect()
}

#[test]
fn a_kill_at_any_point_loses_no_machine_and_leaves_no_template() {
    let (running, stopped) = (State::Running, State::Stopped(Halt::Off));
    let expected = [("b", stopped), ("spot", running)];
    let expected: BTreeSet<(String, String)> = expected
        .map(|(key, state)| (key.to_owned(), state.to_string()))
        .into();
    matrix(&points(), |trial: &Trial| {
        let folder = tempfile::tempdir().unwrap();
        let fake = FakeEc2::start(FakeSettings {
            shown_after: Duration::from_millis(10),
            ..FakeSettings::default()
        });
        let run = |steps: &[&str]| {
            run_to_end(with_environment(&mut keeper(folder.path(), &fake, steps)));
        };
        let mut command = keeper(folder.path(), &fake, STEPS);
        trial.arm_at(with_environment(&mut command), 1, Action::Kill);
        let output = command.output().expect("the keeper starts");
        trial.assert_killed(output.status);
        // What is left of it is known, wherever it was killed.
        run(&["settle"]);
        compare(&fake, folder.path());
        // The next run comes to the same end: keys make orders idempotent.
        run(STEPS);
        let point = trial.point().name();
        assert_eq!(compare(&fake, folder.path()), expected, "{point}");
        run(&["destroy", "b", "destroy", "spot"]);
        assert!(compare(&fake, folder.path()).is_empty(), "{point}");
        assert_eq!(fake.templates(), Vec::<String>::new(), "{point}");
        let all = fake.all_machines();
        let tokens: BTreeSet<_> = all.iter().map(|it| &it.tags["muster-token"]).collect();
        assert_eq!(
            tokens.len(),
            all.len(),
            "{point}: a token made two machines"
        );
    });
}
