use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, PartitionName, SubjectId};
use proptest::prelude::*;
use rustix::io::Errno;

use super::{DiskUse, Disks, Job, MeasureError, Measurement, Remark, Report};
use crate::settings::DiskSettings;
use crate::watch::WatchedFolder;

const PERIOD: Duration = Duration::from_secs(10);

fn name(text: &str) -> PartitionName {
    PartitionName::new(text).unwrap()
}

fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").unwrap(),
        subject_id: SubjectId::new("subject").unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn folder(text: &str, path: &Path) -> WatchedFolder {
    WatchedFolder {
        name: name(text),
        path: path.to_owned(),
        limit: None,
    }
}

fn disks(rest: u32) -> Disks {
    let settings = DiskSettings {
        rest,
        max_entries: 1000,
    };
    Disks::new(settings, PERIOD)
}

/// A job in which every walk takes this long.
fn carry_out(job: Job, each: Duration) -> Report {
    let found = |(key, path)| Measurement {
        key,
        path,
        found: Ok(DiskUse {
            used: 1,
            size: 2,
            complete: true,
        }),
    };
    let mut report = Report::default();
    report.found.extend(job.partitions.into_iter().map(found));
    for folder in job.folders {
        if report.walked >= job.allowance {
            break;
        }
        report.walked += each;
        report.found.push(found(folder));
    }
    report
}

#[test]
fn places_are_measured_for_real() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), vec![1; 50_000]).unwrap();
    let mut disks = disks(99);
    disks.add_partition(&name("root"), Path::new("/"));
    let folders = [
        folder("storage", root.path()),
        folder("gone", Path::new("/nowhere/at/all")),
    ];
    disks.set_folders(&instance(0), &folders);
    let job = disks.plan(PERIOD).unwrap();
    assert!(disks.plan(PERIOD).is_none(), "one job at a time");
    let report = job.run(&AtomicBool::new(false));
    let remarks = disks.settle(report);
    let failed = Remark::Failed(MeasureError::FileSystem(Errno::NOENT));
    assert_eq!((remarks.len(), remarks[0].2), (1, failed));
    let found = |text: &str, owner| {
        disks.found(&super::PlaceKey {
            owner,
            name: name(text),
        })
    };
    let stat = rustix::fs::statvfs("/").unwrap();
    let all = found("root", None).unwrap();
    assert_eq!(all.size, stat.f_blocks * stat.f_frsize);
    assert!(all.used > 0 && all.used < all.size);
    let own = found("storage", Some(instance(0))).unwrap();
    assert!((50_000..80_000).contains(&own.used), "{own:?}");
    assert_eq!(found("gone", Some(instance(0))), None);
    // It is said once.
    let again = disks.plan(PERIOD).unwrap().run(&AtomicBool::new(false));
    assert_eq!(disks.settle(again), []);
}

#[test]
fn a_result_for_another_folder_of_that_name_does_not_count() {
    let mut disks = disks(99);
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/a"))]);
    let job = disks.plan(PERIOD).unwrap();
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/b"))]);
    let _ = disks.settle(carry_out(job, Duration::ZERO));
    let job = disks.plan(PERIOD).unwrap();
    let key = job.folders[0].0.clone();
    assert_eq!(disks.found(&key), None);
    disks.set_folders(&instance(0), &[]);
    let _ = disks.settle(carry_out(job, Duration::ZERO));
    assert_eq!(disks.found(&key), None);
    assert!(disks.plan(PERIOD).is_none(), "nothing is left to measure");
}

#[test]
fn large_folders_wait_and_nobody_is_forgotten() {
    let mut disks = disks(99);
    let all: Vec<PathBuf> = (0..5).map(|number| format!("/{number}").into()).collect();
    for (number, path) in (0..).zip(&all) {
        disks.set_folders(&instance(number), &[folder("storage", path)]);
    }
    // Each walk takes 200 ms; 100 ms are earned per period, and 250 ms are there at the beginning.
    let mut walked = Vec::new();
    for _ in 0..12 {
        let job = disks.plan(PERIOD).unwrap();
        let report = carry_out(job, Duration::from_millis(200));
        walked.push(report.found.len());
        let _ = disks.settle(report);
    }
    assert_eq!(walked, [2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
    assert!(disks.places.values().all(|place| place.round > 0));
}

#[test]
fn a_lost_job_does_not_end_measuring() {
    let mut disks = disks(0);
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/a"))]);
    assert!(disks.plan(PERIOD).is_some());
    disks.lose();
    let job = disks.plan(PERIOD).unwrap();
    assert_eq!((job.folders.len(), job.allowance), (1, Duration::MAX));
}

proptest! {
    /// Over any time, walks take no more than their share, the first burst, and the last walk, which may be longer than what
    /// was left for it.
    #[test]
    fn walks_keep_to_their_share(
        rest in 1..200u32,
        walks in prop::collection::vec(0..5000u64, 1..20),
        rounds in 1..300u32,
    ) {
        let mut disks = disks(rest);
        for (number, _) in (0..).zip(&walks) {
            disks.set_folders(&instance(number), &[folder("storage", Path::new("/x"))]);
        }
        let mut total = Duration::ZERO;
        for round in 1..=rounds {
            let mut job = disks.plan(PERIOD).unwrap();
            let mut report = Report::default();
            let allowance = std::mem::take(&mut job.allowance);
            for (key, path) in job.folders {
                if report.walked >= allowance {
                    break;
                }
                let number = usize::try_from(key.owner.as_ref().unwrap().instance).unwrap();
                report.walked += Duration::from_millis(walks[number]);
                let found = Err(MeasureError::Look(Errno::IO));
                report.found.push(Measurement { key, path, found });
            }
            total += report.walked;
            let _ = disks.settle(report);
            let share = PERIOD * round / (rest + 1);
            prop_assert!(total <= share + super::BURST.max(PERIOD / (rest + 1)) + Duration::from_secs(5));
        }
    }
}
