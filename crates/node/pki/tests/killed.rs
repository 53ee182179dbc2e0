//! A process that signs is killed at every lasting step; the authority stays consistent and goes on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use muster_fault::{Action, Trial, matrix, test_program};
use muster_pki::jiff::Timestamp;
use muster_pki::{Authority, FAULT_POINTS, PemItem, Serial, Status, describe_pem};

/// The steps are passed several times in one run: at making, issuing, revoking and replacing.
const ROUNDS: u64 = 12;

fn run(trial: Option<(&Trial, u64)>, folder: &Path) -> Output {
    let mut command = Command::new(test_program("signing"));
    command.arg(folder).stdin(Stdio::null());
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    command.output().expect("the program runs")
}

fn numbers(output: &Output, word: &str) -> Vec<Serial> {
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text
        .lines()
        .filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    numbers.collect()
}

/// What is handed out is recorded, what is said to be revoked is on the list, and no half-written file has a name that
/// somebody reads.
fn check(folder: &Path, before: &Output) {
    let now = Timestamp::now();
    let authority = Authority::open(folder, now).expect("it opens again");
    for serial in numbers(before, "issued") {
        assert!(
            authority.ledger().get(serial).is_some(),
            "{serial} is handed out and not recorded"
        );
    }
    let lists = describe_pem(&authority.lists_pem().expect("lists")).expect("well-formed lists");
    let revoked: BTreeSet<String> = lists
        .iter()
        .flat_map(|item| match item {
            PemItem::List(list) => list.revoked.clone(),
            other => panic!("not a list: {other:?}"),
        })
        .collect();
    for cert in authority.ledger().all() {
        let listed = revoked.contains(&cert.issued.serial.to_string());
        let current = authority
            .ledger()
            .intermediate()
            .map(|(number, _)| muster_pki::IssuerName::Intermediate(number));
        // What a revoked intermediate has signed ends with it; it has no list any more.
        if cert.issued.issuer == muster_pki::IssuerName::Root || Some(cert.issued.issuer) == current
        {
            assert_eq!(
                cert.status(now) == Status::Revoked,
                listed,
                "{:?}",
                cert.issued.serial
            );
        }
    }
    for serial in numbers(before, "revoked") {
        assert_eq!(
            authority.ledger().get(serial).map(|cert| cert.status(now)),
            Some(Status::Revoked)
        );
    }
}

#[test]
fn killed_at_every_step_it_is_consistent_and_goes_on() {
    matrix(FAULT_POINTS, |trial| {
        for nth in 1..=ROUNDS {
            let place = tempfile::tempdir().expect("a folder");
            let folder = place.path().join("pki");
            // A fresh report for each round.
            let round = Trial::new(trial.point());
            let killed = run(Some((&round, nth)), &folder);
            if !round.reached() {
                assert!(killed.status.success(), "{}: {:?}", trial.point(), killed);
                assert!(nth > 1, "{} is never reached", trial.point());
                break;
            }
            round.assert_killed(killed.status);
            let begun = folder.join("authority.json").exists();
            if begun {
                check(&folder, &killed);
            }
            let finished = run(None, &folder);
            assert!(
                finished.status.success(),
                "{} at {nth}: {finished:?}",
                trial.point()
            );
            check(&folder, &finished);
            let leftovers: Vec<_> = fs::read_dir(&folder)
                .expect("folder")
                .map(|entry| entry.expect("an entry").file_name())
                .filter(|name| name.to_string_lossy().ends_with(".key.pem.new"))
                .collect();
            assert_eq!(
                leftovers,
                Vec::<std::ffi::OsString>::new(),
                "{} at {nth}: keys are left",
                trial.point()
            );
        }
        // The matrix wants to see the point reached in its own trial too.
        let place = tempfile::tempdir().expect("a folder");
        let last = run(Some((trial, 1)), &place.path().join("pki"));
        trial.assert_killed(last.status);
    });
}

#[test]
fn many_processes_at_once_lose_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("pki");
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = Command::new(test_program("signing"));
            command
                .arg(&folder)
                .stdout(Stdio::piped())
                .stdin(Stdio::null());
            command.spawn().expect("started")
        })
        .collect();
    let mut issued = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{output:?}");
        issued.extend(numbers(&output, "issued"));
    }
    assert_eq!(issued.len(), 18, "three each, all different");
    let authority = Authority::open(&folder, Timestamp::now()).expect("opened");
    for serial in issued {
        assert!(authority.ledger().get(serial).is_some(), "{serial}");
    }
}
