use std::fs;

use super::*;
use crate::ledger::{IssuerName, ListSigned};
use crate::window::Window;

fn list(number: u64) -> Entry {
    let now = "2026-03-01T00:00:00Z".parse().expect("a time");
    Entry::ListSigned(ListSigned {
        issuer: IssuerName::Root,
        number,
        window: Window::of_list(now).expect("a window"),
    })
}

fn last(ledger: &Ledger) -> Option<u64> {
    ledger.last_list(IssuerName::Root).map(|list| list.number)
}

#[test]
fn what_was_added_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(read(folder.path()).expect("empty"), Ledger::default());
    let mut record = Record::open(folder.path()).expect("opened");
    record.append(list(1)).expect("added");
    record.append(list(2)).expect("added");
    assert_eq!(&read(folder.path()).expect("read"), record.ledger());
    assert_eq!(
        Record::open(folder.path()).expect("opened").ledger(),
        record.ledger()
    );
}

#[test]
fn a_torn_end_is_ignored_by_readers_and_cut_by_the_next_line_at_every_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(layout::RECORD);
    let mut record = Record::open(folder.path()).expect("opened");
    record.append(list(1)).expect("added");
    let first = fs::read(&path).expect("one line");
    record.append(list(22)).expect("added");
    let both = fs::read(&path).expect("two lines");
    for cut in first.len()..both.len() {
        fs::write(&path, &both[..cut]).expect("torn");
        assert_eq!(
            last(&read(folder.path()).expect("read")),
            Some(1),
            "cut at {cut}"
        );
        let mut record = Record::open(folder.path()).expect("opened");
        record.append(list(3)).expect("added");
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(text.lines().count(), 2, "cut at {cut}");
        assert_eq!(
            last(&read(folder.path()).expect("read")),
            Some(3),
            "cut at {cut}"
        );
    }
}

#[test]
fn damage_before_the_end_is_named_and_nothing_is_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(layout::RECORD);
    let mut record = Record::open(folder.path()).expect("opened");
    record.append(list(1)).expect("added");
    record.append(list(2)).expect("added");
    let good = fs::read_to_string(&path).expect("text");
    fs::write(&path, good.replacen("root", "rood", 1)).expect("damaged");
    assert!(matches!(
        Record::open(folder.path()),
        Err(RecordError::Damaged { line: 1, .. })
    ));
    let first = good.lines().next().expect("a line");
    fs::write(&path, format!("{good}{first}\n")).expect("contradictory");
    let error = Record::open(folder.path()).expect_err("contradictory");
    assert!(
        matches!(error, RecordError::Contradiction { line: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_refused_entry_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = Record::open(folder.path()).expect("opened");
    record.append(list(5)).expect("added");
    let before = fs::read(folder.path().join(layout::RECORD)).expect("bytes");
    assert!(matches!(
        record.append(list(5)),
        Err(RecordError::Refused { .. })
    ));
    assert_eq!(
        fs::read(folder.path().join(layout::RECORD)).expect("bytes"),
        before
    );
}
