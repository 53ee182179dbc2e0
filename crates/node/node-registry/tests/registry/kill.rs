//! `kill -9` of the Main Node at every point: whatever anybody was told is still so afterwards.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use muster_fault::{Action, Trial, matrix, test_program};
use muster_node_registry::FAULT_POINTS;
use tempfile::TempDir;

use crate::rig::*;

/// What a run said before it ended: the last state of each node that somebody was told of.
fn run(folder: &TempDir, trial: Option<(&Trial, u64)>) -> (BTreeMap<String, String>, bool) {
    let mut command = Command::new(test_program("registry_main"));
    command
        .arg(folder.path().join("iam.db"))
        .env_remove("MUSTER_FAULT")
        .stderr(Stdio::inherit());
    if let Some((trial, nth)) = trial {
        trial.arm_at(&mut command, nth, Action::Kill);
    }
    let output = command.output().unwrap();
    let mut told = BTreeMap::new();
    let mut closed = false;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["shown", id, state] => {
                told.insert(id.to_owned(), state.to_owned());
            }
            ["paused", id] => {
                told.insert(id.to_owned(), "paused".to_owned());
            }
            ["closed"] => closed = true,
            _ => {}
        }
    }
    match trial {
        Some((trial, _)) if trial.reached() => trial.assert_killed(output.status),
        _ => assert!(output.status.success() && closed, "{:?}", output.status),
    }
    (told, closed)
}

async fn check(folder: TempDir, told: &BTreeMap<String, String>) -> TempDir {
    let main = Main::in_folder(folder, quick()).await;
    for (id, state) in told {
        let record = main
            .registry
            .info(id)
            .unwrap_or_else(|| panic!("{id} was lost"));
        // A state may be newer than what was told, never older.
        let kept = record.info.state == Paused || record.info.state.as_str() == state;
        assert!(kept, "{id} was {state} and is {}", record.info.state);
        assert!(!is_here(&record), "{id} has no stream yet");
    }
    main.registry.shutdown().await;
    let Main {
        registry, folder, ..
    } = main;
    drop(registry);
    folder
}

#[test]
fn what_anybody_was_told_survives_a_kill_at_every_point() {
    muster_lab::alone!();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store_points = muster_store::FAULT_POINTS.iter().filter(|point| {
        // The others are about new, damaged and migrated databases, which the store tests itself.
        ["store.job-done", "store.committed", "store.acknowledged"].contains(&point.name())
    });
    let points: Vec<_> = FAULT_POINTS.iter().chain(store_points).copied().collect();
    for nth in 1..=3 {
        matrix(&points, |trial| {
            let folder = tempfile::tempdir().unwrap();
            let (told, closed) = run(&folder, Some((trial, nth)));
            assert!(!closed);
            let folder = runtime.block_on(check(folder, &told));
            // And it goes on from there as if nothing had been.
            let (again, _) = run(&folder, None);
            assert_eq!(again.len(), 4);
            assert!(again.values().all(|state| state == "paused"), "{again:?}");
            runtime.block_on(check(folder, &again));
        });
    }
}
