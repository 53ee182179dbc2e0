use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, PartitionName, SubjectId};
use proptest::prelude::*;
use rustix::io::Errno;

use super::{
    DiskUse, Disks, Job, MeasureError, Measurement, PlaceKey, PlaceRemark, Progress, Remark,
};
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
        patience: PERIOD * 3,
    };
    Disks::new(settings, PERIOD)
}

fn key(text: &str, owner: Option<u64>) -> PlaceKey {
    PlaceKey {
        owner: owner.map(instance),
        name: name(text),
    }
}

/// A job in which a walk takes as long as `each` says; how many places it has measured.
fn carry_out(
    disks: &mut Disks,
    job: Job,
    each: impl Fn(&PlaceKey) -> Duration,
) -> (usize, Duration) {
    let number = job.number;
    let (mut walked, mut count) = (Duration::ZERO, 0);
    let mut tell = |(key, path)| {
        let found = Ok(DiskUse {
            used: 1,
            size: 2,
            complete: true,
        });
        count += 1;
        assert_eq!(
            disks.settle(number, Progress::Found(Measurement { key, path, found })),
            None
        );
    };
    job.partitions.into_iter().for_each(&mut tell);
    for folder in job.folders {
        if walked >= job.allowance {
            break;
        }
        walked += each(&folder.0);
        tell(folder);
    }
    assert_eq!(disks.settle(number, Progress::Done(walked)), None);
    (count, walked)
}

/// A job for real; what is said about places.
fn run(disks: &mut Disks, job: Job) -> Vec<PlaceRemark> {
    let (number, mut remarks) = (job.number, Vec::new());
    job.run(&AtomicBool::new(false), |progress| {
        remarks.extend(disks.settle(number, progress));
    });
    remarks
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
    let job = disks.plan(PERIOD).job.unwrap();
    assert!(disks.plan(PERIOD).job.is_none(), "one job at a time");
    let remarks = run(&mut disks, job);
    let failed = Remark::Failed(MeasureError::FileSystem(Errno::NOENT));
    assert_eq!((remarks.len(), remarks[0].2), (1, failed));
    let found = |text: &str, owner| disks.found(&key(text, owner));
    let stat = rustix::fs::statvfs("/").unwrap();
    let all = found("root", None).unwrap();
    assert_eq!(all.size, stat.f_blocks * stat.f_frsize);
    assert!(all.used > 0 && all.used < all.size);
    let own = found("storage", Some(0)).unwrap();
    assert!((50_000..80_000).contains(&own.used), "{own:?}");
    assert_eq!(found("gone", Some(0)), None);
    // It is said once.
    let again = disks.plan(PERIOD).job.unwrap();
    assert_eq!(run(&mut disks, again), []);
}

#[test]
fn a_result_for_another_folder_of_that_name_does_not_count() {
    let mut disks = disks(99);
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/a"))]);
    let job = disks.plan(PERIOD).job.unwrap();
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/b"))]);
    carry_out(&mut disks, job, |_| Duration::ZERO);
    let job = disks.plan(PERIOD).job.unwrap();
    assert_eq!(disks.found(&key("tmp", Some(0))), None);
    disks.set_folders(&instance(0), &[]);
    carry_out(&mut disks, job, |_| Duration::ZERO);
    assert_eq!(disks.found(&key("tmp", Some(0))), None);
    assert!(
        disks.plan(PERIOD).job.is_none(),
        "nothing is left to measure"
    );
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
        let count = disks.plan(PERIOD).job.map_or(0, |job| {
            carry_out(&mut disks, job, |_| Duration::from_millis(200)).0
        });
        walked.push(count);
    }
    assert_eq!(walked, [2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
    assert!(disks.places.values().all(|place| place.found.is_some()));
}

#[test]
fn a_job_that_was_not_started_does_not_end_measuring() {
    let mut disks = disks(0);
    disks.set_folders(&instance(0), &[folder("tmp", Path::new("/a"))]);
    assert!(disks.plan(PERIOD).job.is_some());
    disks.lose();
    let job = disks.plan(PERIOD).job.unwrap();
    assert_eq!((job.folders.len(), job.allowance), (1, Duration::MAX));
}

#[test]
fn who_hangs_is_left_alone_until_it_answers_and_the_others_are_measured() {
    let mut disks = disks(0);
    disks.add_partition(&name("dead"), Path::new("/dead"));
    disks.add_partition(&name("well"), Path::new("/well"));
    let dead = (key("dead", None), Path::new("/dead").into());
    let job = disks.plan(PERIOD).job.unwrap();
    assert_eq!(job.partitions[0], dead);
    let mut plans: Vec<_> = (0..7).map(|_| disks.plan(PERIOD)).collect();
    let last = plans.pop().unwrap();
    assert!(
        plans
            .iter()
            .all(|plan| !plan.gives_up && plan.job.is_none())
    );
    let (key, path) = dead;
    assert_eq!(
        last.remark,
        Some((key.clone(), path.clone(), Remark::Hangs))
    );
    let without = last.job.unwrap();
    assert_eq!(
        (without.partitions.len(), without.number),
        (1, job.number + 1)
    );
    carry_out(&mut disks, without, |_| Duration::ZERO);
    assert_eq!(disks.plan(PERIOD).job.unwrap().partitions.len(), 1);
    disks.lose();
    // It answers at last.
    let found = Err(MeasureError::FileSystem(Errno::NOTCONN));
    let answer = Progress::Found(Measurement { key, path, found });
    assert!(disks.settle(job.number, answer).is_some());
    assert_eq!(
        disks.settle(job.number, Progress::Done(Duration::ZERO)),
        None
    );
    assert_eq!(disks.plan(PERIOD).job.unwrap().partitions.len(), 2);
}

#[test]
fn no_more_than_a_few_jobs_hang() {
    let mut disks = disks(0);
    let mut started = 0;
    for number in 0..100 {
        // Each time another folder, and each time it hangs.
        disks.set_folders(&instance(number), &[folder("tmp", Path::new("/a"))]);
        for _ in 0..7 {
            started += usize::from(disks.plan(PERIOD).job.is_some());
        }
    }
    assert_eq!(started, super::MAX_HUNG);
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
            if let Some(job) = disks.plan(PERIOD).job {
                let each = |key: &PlaceKey| {
                    let number = key.owner.as_ref().map_or(0, |owner| owner.instance);
                    Duration::from_millis(walks[usize::try_from(number).unwrap()])
                };
                total += carry_out(&mut disks, job, each).1;
            }
            let share = PERIOD * round / (rest + 1);
            prop_assert!(total <= share + super::BURST.max(PERIOD / (rest + 1)) + Duration::from_secs(5));
        }
    }
}
