//! Places by number, and reading without using memory for what is not wanted.

use std::collections::BTreeMap;

use muster_journal::{Journal, JournalWriter, SeqnumSource};

use crate::support::*;

/// Two sources that write at the same time, each into a file of its own.
fn two_writers(dir: &std::path::Path) -> [JournalWriter; 2] {
    [1, 2].map(|n| {
        let numbers = SeqnumSource {
            id: boot(20 + n),
            next: 1,
        };
        let path = dir.join(format!("user-{n}.journal"));
        JournalWriter::create(&path, &options(), numbers).expect("create")
    })
}

#[test]
fn numbers_name_a_place_that_late_entries_do_not_slip_behind() {
    let dir = tempfile::tempdir().expect("dir");
    let [mut one, mut two] = two_writers(dir.path());
    one.append(at(10), &line(1, "one 10")).expect("append");
    two.append(at(20), &line(1, "two 20")).expect("append");
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    let read = journal.last_numbers().expect("numbers");
    assert_eq!(read, BTreeMap::from([(boot(21), 1), (boot(22), 1)]));
    // Later by its number, earlier by its clock than what was read of the other.
    one.append(at(15), &line(1, "one 15")).expect("append");
    two.append(at(30), &line(1, "two 30")).expect("append");
    journal.refresh().expect("refresh");
    journal.seek_numbers(&read).expect("seek");
    assert_eq!(messages_forward(&mut journal), ["one 15", "two 30"]);
    assert_eq!(journal.last_numbers().expect("numbers")[&boot(22)], 2);
    // A source that is not named was not read.
    journal
        .seek_numbers(&BTreeMap::from([(boot(22), 9)]))
        .expect("seek");
    assert_eq!(messages_forward(&mut journal), ["one 10", "one 15"]);
}

#[test]
fn a_reader_can_do_without_some_files_and_without_memory() {
    let dir = tempfile::tempdir().expect("dir");
    let mut rotating = Rotating::new(dir.path(), options());
    for n in 0..30 {
        rotating.append(at(n), &line(1, &format!("line {n}")));
        if n % 10 == 9 {
            rotating.rotate();
        }
    }
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    journal.retain_files(|file| file.seqnums.0 <= 11 && file.n_entries > 0);
    assert_eq!(messages_forward(&mut journal).len(), 20);
    journal.release_memory();
    journal.seek_head();
    let first = journal.next_entry().expect("read").expect("an entry");
    journal.release_memory();
    assert_eq!(message(&first), "line 0");
    assert_eq!(messages_forward(&mut journal).len(), 19);
}

#[test]
fn the_start_of_a_value_is_read_however_it_is_stored() {
    let dir = tempfile::tempdir().expect("dir");
    let mut rotating = Rotating::new(dir.path(), options());
    let mut noise = Vec::new();
    let mut state = 1_u64;
    while noise.len() < 300_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        noise.push(state.to_le_bytes()[7]);
    }
    // Short, packed well, and not packed.
    let values = [
        b"MESSAGE=short".to_vec(),
        [b"PACKED=".as_slice(), &b"x".repeat(1 << 20)].concat(),
        [b"NOISE=".as_slice(), &noise].concat(),
    ];
    rotating.append(at(1), &values);
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    let entry = journal.next_entry().expect("read").expect("an entry");
    for max in [1, 5, 100, 70_000, 2 << 20] {
        let mut starts = Vec::new();
        let read = entry.each_field_start(max, |start, length| {
            starts.push((start.to_vec(), length));
            true
        });
        read.expect("read");
        let mut expected: Vec<_> = values
            .iter()
            .map(|value| (value[..value.len().min(max)].to_vec(), value.len() as u64))
            .collect();
        starts.sort();
        expected.sort();
        assert!(starts == expected, "at most {max} bytes");
    }
    let mut count = 0;
    let stopped = entry.each_field_start(10, |_, _| {
        count += 1;
        false
    });
    stopped.expect("read");
    assert_eq!(count, 1);
}
