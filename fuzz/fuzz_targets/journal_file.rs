//! A journal file with any of its words replaced, cut anywhere, or any bytes at all: readers, the verifier
//! and a writer that is asked to continue it.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use muster_journal::{
    Cursor, EntryTime, Id128, Journal, JournalWriter, Matches, SeqnumSource, WriterOptions,
};

const BOOT: Id128 = Id128::from_bytes([7; 16]);

fn options(compact: bool) -> WriterOptions {
    let mut options = WriterOptions::new(Id128::from_bytes([1; 16]), BOOT);
    options.max_size = 512 << 10;
    options.compact = compact;
    options
}

fn entry(n: u64) -> (EntryTime, Vec<String>) {
    let when = EntryTime { realtime: 1_000_000 + n, monotonic: n, boot_id: BOOT };
    let fields = vec![
        format!("MESSAGE=line {n}"),
        format!("_BOOT_ID={BOOT}"),
        format!("_SYSTEMD_UNIT=u{}.service", n % 3),
        format!("LONG={}", "x".repeat(600)),
    ];
    (when, fields)
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("journal-fuzz-{}-{name}.journal", std::process::id()))
}

fn sample(compact: bool) -> Vec<u8> {
    let path = scratch("sample");
    let _ = fs::remove_file(&path);
    let numbers = SeqnumSource { id: BOOT, next: 1 };
    let mut writer = JournalWriter::create(&path, &options(compact), numbers).expect("create");
    for n in 0..20 {
        let (when, fields) = entry(n);
        writer.append(when, &fields).expect("append");
    }
    writer.close().expect("close");
    let mut bytes = fs::read(&path).expect("read");
    fs::remove_file(&path).expect("remove");
    // The part behind the last object is preallocated space.
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("not empty");
    bytes.truncate(used + 64);
    bytes
}

fn exercise(path: &Path, compact: bool) {
    let _ = muster_journal::verify(path);
    if let Ok(mut journal) = Journal::open_files(&[path]) {
        let mut count = 0;
        while let Ok(Some(entry)) = journal.next_entry() {
            let _ = entry.fields_lossy();
            count += 1;
            assert!(count < 1_000_000, "an endless stream");
        }
        let _ = journal.seek_tail();
        while let Ok(Some(_)) = journal.previous_entry() {
            count -= 1;
            assert!(count > -1_000_000, "an endless stream");
        }
        let mut matches = Matches::new();
        matches.add(b"_SYSTEMD_UNIT=u1.service").or().add(b"MESSAGE=line 3");
        journal.set_matches(matches);
        let _ = journal.seek_realtime(1_000_010);
        let _ = journal.next_entry();
        let _ = journal.seek_monotonic(BOOT, 5);
        let _ = journal.next_entry();
        let cursor = Cursor { seqnum_id: Some(BOOT), seqnum: Some(5), ..Cursor::default() };
        let _ = journal.seek_cursor(&cursor);
        let _ = journal.next_entry();
        let _ = journal.boots();
        let _ = journal.field_names();
        let _ = journal.each_value(b"_SYSTEMD_UNIT", |_| true);
    }
    if let Ok(mut writer) = JournalWriter::open(path, &options(compact)) {
        for n in 100..103 {
            let (when, fields) = entry(n);
            let _ = writer.append(when, &fields);
        }
    }
}

fuzz_target!(|input: (bool, Vec<(u32, u64)>, Option<u16>, Option<Vec<u8>>)| {
    static SAMPLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| [sample(false), sample(true)]);
    let (compact, words, cut, raw) = input;
    let mut bytes = raw.unwrap_or_else(|| samples[usize::from(compact)].clone());
    for (at, word) in words {
        let count = bytes.len() / 8;
        if count > 0 {
            let at = at as usize % count * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(bytes.len().saturating_sub(usize::from(cut)));
    }
    let path = scratch("input");
    fs::write(&path, &bytes).expect("write");
    exercise(&path, compact);
    let _ = fs::remove_file(&path);
});
