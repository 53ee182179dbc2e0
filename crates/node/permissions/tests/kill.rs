//! `kill -9` at every fault point: an acknowledged secret stays its instance's only one, and a
//! registration that was taken back does not return.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
use muster_fault::{Point, Trial, matrix, test_program};
use muster_permissions::{FAULT_POINTS, Limits, LookUpError, Permissions, SCHEMA};
use muster_store::{OnDamage, Store, StoreConfig};

#[derive(Debug, Default)]
struct Said {
    secrets: BTreeMap<u64, String>,
    gone: bool,
    done: bool,
}

fn run(folder: &Path, trial: Option<&Trial>) -> Said {
    let mut command = Command::new(test_program("permissions_registrar"));
    command.arg(folder).env_remove("MUSTER_FAULT");
    if let Some(trial) = trial {
        trial.arm(&mut command);
    }
    let output = command.output().expect("the registrar starts");
    let mut said = Said::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["secret", number, secret] => {
                let number = number.parse().expect("a number");
                let before = said.secrets.insert(number, (*secret).to_owned());
                assert!(
                    before.is_none_or(|before| before == *secret),
                    "a repeat differs"
                );
            }
            ["gone", "3"] => said.gone = true,
            ["done"] => said.done = true,
            _ => panic!("{line}"),
        }
    }
    match trial {
        Some(trial) => trial.assert_killed(output.status),
        None => assert!(output.status.success() && said.done, "{output:?}"),
    }
    said
}

#[tokio::main(flavor = "current_thread")]
async fn check(folder: &Path, said: &Said) {
    let config = StoreConfig::new(folder.join("iam.db"), "check 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA))
        .expect("the store")
        .store;
    let key = folder.join("permissions.key");
    let permissions = Permissions::open(store, &key, Limits::default()).expect("the key");
    for (number, secret) in &said.secrets {
        let found = permissions.look_up(secret, "vis").await;
        let expected = InstanceIdent {
            item_id: ItemId::new("item").expect("an id"),
            subject_id: SubjectId::new("subject").expect("an id"),
            instance: *number,
            item_type: ItemType::Service,
            preinstalled: false,
        };
        match found {
            Ok(granted) => {
                assert_eq!(granted.instance, expected);
                assert!(!(said.gone && *number == 3), "it came back");
            }
            // Taken back, though the program may have died before it said so.
            Err(LookUpError::UnknownSecret) => assert_eq!(*number, 3, "lost"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_point() {
    let commits = muster_store::FAULT_POINTS.iter().filter(|point| {
        ["store.job-done", "store.committed", "store.acknowledged"].contains(&point.name())
    });
    let points: Vec<Point> = FAULT_POINTS.iter().chain(commits).copied().collect();
    assert_eq!(points.len(), FAULT_POINTS.len() + 3);
    matrix(&points, |trial| {
        let folder = tempfile::tempdir().expect("a folder");
        let first = run(folder.path(), Some(trial));
        if folder.path().join("permissions.key").exists() {
            check(folder.path(), &first);
        }
        let second = run(folder.path(), None);
        for (number, secret) in &first.secrets {
            if *number != 3 {
                assert_eq!(
                    second.secrets.get(number),
                    Some(secret),
                    "another secret than before"
                );
            }
        }
        check(folder.path(), &second);
        let key = folder.path().join("permissions.key");
        assert!(
            !key.with_extension("key.new").exists(),
            "nothing is left over"
        );
    });
}
