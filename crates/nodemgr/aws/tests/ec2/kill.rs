//! `kill -9` of a manager, at random moments: no machine is made twice, and none is forgotten.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use muster_aws::testing::{FakeEc2, FakeSettings};
use muster_lifecycle::State;
use rand::RngExt as _;

use crate::credentials::{keeper, with_environment};
use crate::model;

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
        let mut child = with_environment(&mut keeper(folder.path(), &fake, "churn"))
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
    let output = with_environment(&mut keeper(folder.path(), &fake, "settle"))
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
    model::check(&fake);
}
