//! Readers beside a writer: following, rotation under them, and never an entry in half.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_journal::{Change, Journal, Matches, WriterOptions};

use crate::support::*;

const TIME: Duration = Duration::from_secs(30);

/// Reads on until `count` messages came, waiting for more in between.
fn follow(journal: &mut Journal, count: usize) -> Vec<String> {
    let deadline = Instant::now() + TIME;
    let mut messages = messages_forward(journal);
    while messages.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} messages",
            messages.len()
        );
        journal.wait(Some(Duration::from_secs(1))).expect("wait");
        messages.extend(messages_forward(journal));
    }
    messages
}

fn numbered(lines: std::ops::Range<u64>) -> Vec<String> {
    lines.map(|n| format!("line {n}")).collect()
}

#[test]
fn what_is_appended_wakes_a_reader_also_across_rotation() {
    let dir = tempfile::tempdir().expect("dir");
    let mut rotating = Rotating::new(dir.path(), options());
    for n in 0..10 {
        rotating.append(at(n), &line(1, &format!("line {n}")));
    }
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    journal.seek_tail().expect("seek");
    for _ in 0..3 {
        journal.previous_entry().expect("read").expect("an entry");
    }
    assert_eq!(messages_forward(&mut journal), numbered(8..10));
    journal.watch().expect("watch");
    assert_eq!(
        journal.process_changes().expect("nothing yet"),
        Change::Nothing
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 10..2000 {
                if n % 500 == 0 {
                    rotating.rotate();
                }
                rotating.append(at(n), &line(1, &format!("line {n}")));
                rotating.writer.notify_readers().expect("notify");
            }
        });
        assert_eq!(follow(&mut journal, 1990), numbered(10..2000));
    });
    rotating.writer.close().expect("close");
}

#[test]
fn a_follower_of_one_unit_sees_it_appear() {
    let dir = tempfile::tempdir().expect("dir");
    let mut rotating = Rotating::new(dir.path(), options());
    rotating.append(at(0), &line(1, "other"));
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    let mut matches = Matches::new();
    matches.add(b"_SYSTEMD_UNIT=u2.service");
    journal.set_matches(matches);
    journal.seek_tail().expect("seek");
    assert!(journal.next_entry().expect("read").is_none());
    journal.watch().expect("watch");
    for n in 1..50 {
        rotating.append(
            at(n),
            &line(
                u32::try_from(1 + n % 2).expect("small"),
                &format!("line {n}"),
            ),
        );
    }
    rotating.writer.notify_readers().expect("notify");
    let odd: Vec<String> = (1..50)
        .filter(|n| n % 2 == 1)
        .map(|n| format!("line {n}"))
        .collect();
    assert_eq!(follow(&mut journal, odd.len()), odd);
    rotating.writer.close().expect("close");
}

#[test]
fn waiting_ends_at_its_time() {
    let dir = tempfile::tempdir().expect("dir");
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    assert_eq!(journal.wait(Some(TIME)).expect("first"), Change::Files);
    assert_eq!(
        journal.wait(Some(Duration::ZERO)).expect("second"),
        Change::Nothing
    );
}

/// Any number of readers at any time: each sees a beginning of the stream, whole and in order.
#[test]
fn a_reader_never_sees_an_entry_in_half() {
    let dir = tempfile::tempdir().expect("dir");
    for compact in [true, false] {
        let folder: PathBuf = dir.path().join(format!("{compact}"));
        std::fs::create_dir(&folder).expect("dir");
        let options = WriterOptions {
            compact,
            max_size: 4 << 20,
            ..options()
        };
        let mut rotating = Rotating::new(&folder, options);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds == 0 {
                    read_a_beginning(&folder);
                    rounds += 1;
                }
            });
            for n in 0..6000 {
                let unit = u32::try_from(n % 7).expect("small");
                rotating.append(at(n), &line(unit, &format!("line {n}")));
            }
            done.store(true, Ordering::Relaxed);
            reader.join().expect("the reader");
        });
        rotating.writer.close().expect("close");
    }
}

fn read_a_beginning(folder: &Path) {
    // Between the two renames of a rotation a file may be missing, or be there under both names.
    let mut journal = Journal::open_dir(folder).expect("open");
    let mut last = None;
    while let Some(entry) = journal.next_entry().expect("read") {
        let fields = entry
            .fields()
            .expect("all fields of a linked entry are there");
        assert_eq!(fields.len(), 17);
        assert!(
            last.is_none_or(|last| last < entry.seqnum()),
            "out of order"
        );
        assert_eq!(message(&entry), format!("line {}", entry.seqnum() - 1));
        last = Some(entry.seqnum());
    }
    let mut matches = Matches::new();
    matches.add(b"_SYSTEMD_UNIT=u3.service");
    journal.set_matches(matches);
    journal.seek_tail().expect("seek");
    let mut last = None;
    while let Some(entry) = journal.previous_entry().expect("read") {
        assert_eq!((entry.seqnum() - 1) % 7, 3);
        assert!(
            last.is_none_or(|last| last > entry.seqnum()),
            "out of order"
        );
        last = Some(entry.seqnum());
    }
}
