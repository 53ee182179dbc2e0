//! Damaged and hostile files: readers neither panic nor run for ever, and lose no more than is damaged.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use muster_journal::{
    Cursor, Journal, JournalFile, JournalWriter, Matches, SeqnumSource, WriterOptions,
};
use proptest::prelude::*;

use crate::support::*;

const LINES: u64 = 60;

fn sample(compact: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("sample.journal");
    let options = WriterOptions {
        compact,
        max_size: 512 << 10,
        ..options()
    };
    let mut writer = JournalWriter::create(
        &path,
        &options,
        SeqnumSource {
            id: boot(9),
            next: 1,
        },
    )
    .expect("create");
    for n in 0..LINES {
        let mut fields = line(u32::try_from(n % 5).expect("small"), &format!("line {n}"));
        fields.push(format!("LONG={}", "x".repeat(600)).into_bytes());
        writer.append(at(n), &fields).expect("append");
    }
    writer.archive().expect("archive");
    fs::read(&path).expect("read")
}

/// Everything that a reader can be asked for; gives the messages.
fn exercise(path: &Path) -> Vec<Vec<u8>> {
    let _ = muster_journal::verify(path);
    let Ok(file) = JournalFile::open(path) else {
        return Vec::new();
    };
    let _ = file.summary();
    let mut journal = Journal::open_files(&[path]).expect("it opened before");
    let mut messages = Vec::new();
    while let Ok(Some(entry)) = journal.next_entry() {
        let (fields, _) = entry.fields_lossy();
        messages.extend(
            fields
                .into_iter()
                .filter(|field| field.starts_with(b"MESSAGE=")),
        );
        let _ = entry.fields();
        assert!(messages.len() < 100_000, "an endless stream");
    }
    let _ = journal.seek_tail();
    let mut count = 0;
    while let Ok(Some(_)) = journal.previous_entry() {
        count += 1;
        assert!(count < 100_000, "an endless stream");
    }
    let mut matches = Matches::new();
    matches
        .add(b"_SYSTEMD_UNIT=u3.service")
        .add(b"PRIORITY=6")
        .or()
        .add(b"_UID=0");
    journal.set_matches(matches);
    let _ = journal.seek_realtime(at(30).realtime);
    let _ = journal.next_entry();
    let _ = journal.seek_monotonic(boot(1), 1_000_020);
    let _ = journal.previous_entry();
    let cursor = Cursor {
        seqnum_id: Some(boot(9)),
        seqnum: Some(20),
        ..Cursor::default()
    };
    let _ = journal.seek_cursor(&cursor);
    let _ = journal.next_entry();
    let _ = journal.boots();
    let _ = journal.field_names();
    let _ = journal.each_value(b"_SYSTEMD_UNIT", |_| true);
    let _ = journal.refresh();
    let _ = journal.next_entry();
    // A writer that finds such a file either takes it or says why not.
    if let Ok(mut writer) = JournalWriter::open(
        path,
        &WriterOptions {
            max_size: 512 << 10,
            ..options()
        },
    ) {
        let _ = writer.append(at(1000), &line(1, "more"));
    }
    messages
}

fn in_file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("file");
    file.as_file().write_all_at(bytes, 0).expect("write");
    file
}

#[test]
fn a_file_cut_off_anywhere_is_read_up_to_the_cut() {
    let bytes = sample(true);
    let whole = exercise(in_file(&bytes).path());
    assert_eq!(whole.len() as u64, LINES);
    let file = in_file(&bytes);
    let mut least = usize::MAX;
    // From the end, so that the same file can be cut again and again; every byte of the last kilobyte
    // and of the header, and a stride that is no multiple of anything between.
    let cuts = (0..bytes.len())
        .rev()
        .filter(|cut| *cut < 300 || bytes.len() - cut < 1024 || cut % 509 == 0);
    for cut in cuts {
        file.as_file().set_len(cut as u64).expect("cut");
        let messages = exercise(file.path());
        assert!(messages.len() <= least, "a shorter file has more lines");
        assert_eq!(messages, whole[..messages.len()]);
        least = messages.len();
    }
    assert_eq!(least, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: muster_lab::rounds(150, 10_000), ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_never_panic(
        compact in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        in_header in any::<bool>(),
    ) {
        static SAMPLES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let samples = SAMPLES.get_or_init(|| [sample(false), sample(true)]);
        let mut bytes = samples[usize::from(compact)].clone();
        let end = if in_header { 272 } else { bytes.len() };
        for (index, value) in flips {
            bytes[index.index(end)] = value;
        }
        exercise(in_file(&bytes).path());
    }

    /// Words are what links things: put senseless ones where links are.
    #[test]
    fn senseless_links_never_panic(
        compact in any::<bool>(),
        words in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            Just(0_u64), Just(u64::MAX), Just(1), Just(8), any::<u64>(), 0_u64..200_000,
            (0_u64..25_000).prop_map(|n| n * 8),
        ]), 1..12),
    ) {
        static SAMPLES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let samples = SAMPLES.get_or_init(|| [sample(false), sample(true)]);
        let mut bytes = samples[usize::from(compact)].clone();
        for (index, value) in words {
            let at = index.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        exercise(in_file(&bytes).path());
    }
}

#[test]
fn what_is_not_a_journal_is_refused_with_a_reason() {
    for (bytes, reason) in [
        (vec![], "ends within its header"),
        (vec![0; 4096], "signature"),
        (b"LPKSHHRH".repeat(40), "header is too short"),
    ] {
        let file = in_file(&bytes);
        let error = JournalFile::open(file.path())
            .expect_err("refused")
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    let mut later = sample(true);
    later[12] |= 0x40;
    let error = JournalFile::open(in_file(&later).path())
        .expect_err("refused")
        .to_string();
    assert!(error.contains("features 0x40"), "{error}");
}
