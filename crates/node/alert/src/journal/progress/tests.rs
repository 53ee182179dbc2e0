use muster_journal::FileState;
use proptest::prelude::*;

use super::*;

fn source(number: u8) -> Id128 {
    Id128::from_bytes([number; 16])
}

fn file(of: u8, first: u64, last: u64) -> FileFacts {
    FileFacts {
        summary: FileSummary {
            state: FileState::Online,
            machine_id: source(0),
            seqnum_id: source(of),
            n_entries: last + 1 - first,
            seqnums: (first, last),
            realtime: (0, 0),
        },
        lasting: of != 9,
    }
}

fn entry(of: u8, number: u64) -> Known {
    Known::of(&Cursor {
        seqnum_id: Some(source(of)),
        seqnum: Some(number),
        monotonic: Some(number * 1000 + u64::from(of)),
        ..Cursor::default()
    })
}

fn progress(places: &[(u8, u64)]) -> Progress {
    let place = |(of, number): &(u8, u64)| {
        let lasting = *of != 9;
        (
            source(*of),
            Place {
                number: *number,
                lasting,
            },
        )
    };
    Progress::new(places.iter().map(place).collect(), &[])
}

#[test]
fn what_is_gone_unread_is_found_once() {
    let mut progress = progress(&[(1, 10), (2, 20), (3, 30), (9, 40)]);
    let files = [file(1, 5, 50), file(2, 25, 60), file(2, 90, 99)];
    let mut find = || {
        let missing = progress.missing(&files);
        progress.give_up(missing, &files)
    };
    assert_eq!(
        find(),
        [
            Missing::Numbers {
                first: 21,
                last: 24
            },
            Missing::Source { after: 30 },
        ]
    );
    assert_eq!(find(), []);
    let change = progress.take_change().expect("a change");
    assert_eq!(
        change.places[&source(2)].map(|place| place.number),
        Some(24)
    );
    assert_eq!(change.places[&source(3)], None);
    // A journal in memory goes without a word.
    assert_eq!(change.places[&source(9)], None);
    assert!(!change.places.contains_key(&source(1)));
}

#[test]
fn only_what_is_surely_complete_counts_as_read() {
    let files = [file(1, 1, 12)];
    let mut progress = progress(&[(1, 5)]);
    progress.begin([(source(1), 10)].into());
    assert!(progress.is_known(&entry(1, 5)) && !progress.is_known(&entry(1, 6)));
    for number in [8, 12] {
        progress.read(entry(1, number), true, &files);
    }
    assert_eq!(progress.numbers()[&source(1)], 10);
    // An earlier one may still come from another file; what became an alert is known by itself.
    assert!(!progress.is_known(&entry(1, 11)) && progress.is_known(&entry(1, 12)));
}

#[test]
fn the_first_look_passes_over_what_is_there() {
    let mut progress = progress(&[]);
    progress.skip_to(&[(source(1), 7)].into(), &[file(1, 1, 7)]);
    assert!(progress.is_known(&entry(1, 7)) && !progress.is_known(&entry(1, 8)));
}

proptest! {
    /// Whatever is written to which of two files of a source, whenever looks fall, and wherever a process ends: every
    /// entry is read, and none becomes an alert twice, as long as what is written down is not lost.
    #[test]
    fn every_entry_is_read_once(
        steps in prop::collection::vec((any::<bool>(), 0_u8..4), 1..80)
    ) {
        // Entries of the two files; what a look has seen of each; what became an alert.
        let mut files: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        let mut next = 1;
        let mut alerts = Vec::new();
        let mut progress = progress(&[]);
        let facts = [file(1, 1, 1)];
        for (which, what) in steps {
            match what {
                // Written.
                0 | 1 => {
                    files[usize::from(which)].push(next);
                    next += 1;
                }
                // A look: the first file is looked at, then something is written to both, then the second.
                2 => {
                    let last = |files: &[Vec<u64>; 2]| files.iter().flatten().max().copied();
                    let sure = last(&files).map(|last| (source(1), last)).into_iter().collect();
                    let seen = [files[0].clone(), {
                        files[usize::from(which)].push(next);
                        files[1].push(next + 1);
                        next += 2;
                        files[1].clone()
                    }];
                    progress.begin(sure);
                    let mut all: Vec<u64> = seen.concat();
                    all.sort_unstable();
                    for number in all {
                        let known = entry(1, number);
                        if !progress.is_known(&known) {
                            progress.read(known, true, &facts);
                            alerts.push(number);
                        }
                    }
                    progress.end(&facts);
                }
                // The process ends; the next one begins where this one has written down that it was.
                _ => {
                    let recent = progress.change().recent;
                    progress = Progress::new(progress.places.clone(), &recent);
                }
            }
        }
        progress.begin([(source(1), next - 1)].into());
        for number in 1..next {
            if !progress.is_known(&entry(1, number)) {
                alerts.push(number);
            }
        }
        alerts.sort_unstable();
        prop_assert_eq!(alerts, (1..next).collect::<Vec<_>>());
    }
}
