//! What is written is read back, by this crate and by journalctl.

use muster_journal::{
    FileKind, FileState, Journal, JournalWriter, Matches, SeqnumSource, WriterOptions,
};

use crate::support::*;

fn write(path: &std::path::Path, options: &WriterOptions, count: u64) {
    let seqnums = SeqnumSource {
        id: boot(9),
        next: 1,
    };
    let mut writer = JournalWriter::create(path, options, seqnums).expect("create");
    for n in 0..count {
        let unit = u32::try_from(n % 7).expect("small");
        writer
            .append(at(n), &line(unit, &format!("line {n}")))
            .expect("append");
    }
    writer.close().expect("close");
}

#[test]
fn both_layouts_pass_both_verifiers_and_read_the_same_forward_and_backward() {
    let dir = tempfile::tempdir().expect("dir");
    for compact in [true, false] {
        let path = dir.path().join(format!("compact-{compact}.journal"));
        write(
            &path,
            &WriterOptions {
                compact,
                ..options()
            },
            1000,
        );
        assert_verified(&path);
        let expected: Vec<String> = (0..1000).map(|n| format!("line {n}")).collect();
        let mut journal = Journal::open_files(&[&path]).expect("open");
        assert_eq!(messages_forward(&mut journal), expected);
        let mut backward = messages_backward(&mut journal);
        backward.reverse();
        // The journal stands on the last entry, so going back starts before it.
        assert_eq!(backward, expected[..999]);
        let shown = journalctl(&["--file", path.to_str().expect("text"), "-o", "cat"]);
        assert_eq!(
            shown.lines().map(str::to_owned).collect::<Vec<_>>(),
            expected
        );
    }
}

#[test]
fn a_match_finds_exactly_its_entries() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.journal");
    write(&path, &options(), 1000);
    let mut journal = Journal::open_files(&[&path]).expect("open");
    let mut matches = Matches::new();
    matches.add(b"_SYSTEMD_UNIT=u3.service");
    journal.set_matches(matches);
    let found = messages_forward(&mut journal);
    let expected: Vec<String> = (0..1000)
        .filter(|n| n % 7 == 3)
        .map(|n| format!("line {n}"))
        .collect();
    assert_eq!(found, expected);
    let path = path.to_str().expect("text");
    let shown = journalctl(&["--file", path, "-o", "cat", "_SYSTEMD_UNIT=u3.service"]);
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_full_file_is_archived_and_its_successor_continues_the_numbers() {
    let dir = tempfile::tempdir().expect("dir");
    let options = WriterOptions {
        max_size: 1 << 20,
        ..options()
    };
    let mut rotating = Rotating::new(dir.path(), options);
    for n in 0..5000 {
        let appended = rotating.append(at(n), &line(1, &format!("line {n}")));
        assert_eq!(appended.seqnum, n + 1);
    }
    assert!(rotating.archived > 0, "5000 lines do not fit into 1 MiB");
    rotating.writer.close().expect("close");
    let files = muster_journal::list_files(dir.path()).expect("list");
    let archived = files.iter().filter(|file| file.kind == FileKind::Archived);
    assert_eq!(archived.count(), rotating.archived);
    assert_eq!(files.len(), rotating.archived + 1);
    let states = files.iter().filter_map(|file| file.summary);
    let done = states.filter(|summary| summary.state == FileState::Archived);
    assert_eq!(done.count(), rotating.archived);
    assert!(muster_journal::disk_usage(dir.path()).expect("usage") > 0);
    for file in &files {
        assert_verified(&file.path);
    }
    let expected: Vec<String> = (0..5000).map(|n| format!("line {n}")).collect();
    let mut journal = Journal::open_dir(dir.path()).expect("open");
    assert_eq!(messages_forward(&mut journal), expected);
    let shown = journalctl(&["-D", dir.path().to_str().expect("text"), "-o", "cat"]);
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn journals_and_entries_may_move_between_threads() {
    fn movable<T: Send>() {}
    movable::<Journal>();
    movable::<muster_journal::Entry>();
    movable::<JournalWriter>();
}
