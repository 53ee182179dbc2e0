//! `kill -9` of a Unit at every fault point: what was kept arrives, in order and under one name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use muster_cloud::FAULT_POINTS;
use muster_cloud::message::Outgoing;
use muster_cloud::message::telemetry::Alert;
use muster_cloud::testing::{Seen, TestCloud};
use muster_fault::{Action, Trial, matrix, test_program};

fn unit(
    folder: &Path,
    cloud: &TestCloud,
    numbers: Option<(u64, u64)>,
    trial: Option<(&Trial, u64)>,
) -> Output {
    let mut command = Command::new(test_program("unit_of_a_cloud"));
    command.arg(folder).arg(cloud.discovery().to_string());
    if let Some((from, to)) = numbers {
        command.args([from.to_string(), to.to_string()]);
    }
    command.env_remove("MUSTER_FAULT");
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    command.output().expect("it starts")
}

/// The last number that the Unit was told to be kept, and one more.
fn kept(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("kept "));
    last.map_or(0, |it| it.parse::<u64>().expect("a number") + 1)
}

fn states(seen: &Seen) -> Vec<u64> {
    let mut names = BTreeMap::new();
    let mut order = Vec::new();
    for received in &seen.received {
        if let Outgoing::StateRequest(request) = &received.message {
            if !order.contains(&request.instance) {
                order.push(request.instance);
            }
            let known = names.insert(request.instance, received.txn.clone());
            assert!(known.is_none_or(|it| it == received.txn), "under one name");
        }
    }
    order
}

fn alerts(seen: &Seen) -> Vec<u64> {
    let received = seen.once("alerts").into_iter();
    let alerts = received.flat_map(|it| match &it.message {
        Outgoing::Alerts(alerts) => alerts.items.clone(),
        _ => Vec::new(),
    });
    let number = |alert| match alert {
        Alert::SystemQuotaAlert { value, .. } => value,
        other => panic!("{other:?}"),
    };
    alerts.map(number).collect()
}

#[test]
fn a_kill_at_any_point_loses_nothing_that_was_kept() {
    matrix(FAULT_POINTS, |trial| {
        let point = trial.point().name();
        for nth in [1, 2, 5] {
            let folder = tempfile::tempdir().expect("a folder");
            let cloud = TestCloud::start("unit-1", None);
            let killed = unit(folder.path(), &cloud, Some((0, 8)), Some((trial, nth)));
            trial.assert_killed(killed.status);
            let promised = kept(&killed);
            let again = unit(folder.path(), &cloud, Some((100, 102)), None);
            let text = String::from_utf8_lossy(&again.stdout);
            let errors = String::from_utf8_lossy(&again.stderr);
            assert!(text.ends_with("drained\n"), "{point}: {text}{errors}");
            let seen = cloud.seen();
            for arrived in [states(&seen), alerts(&seen)] {
                // One more than it was told may have been kept.
                let old: Vec<u64> = arrived.iter().copied().filter(|it| *it < 100).collect();
                let count = u64::try_from(old.len()).expect("few");
                assert_eq!(old, (0..count).collect::<Vec<_>>(), "{point}");
                assert!(count >= promised, "{point}: {count} of {promised}");
                assert!(arrived.ends_with(&[100, 101]), "{point}: {arrived:?}");
            }
        }
    });
}
