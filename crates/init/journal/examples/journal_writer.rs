//! A log daemon's use of a journal file, for tests that kill it.
//!
//! `journal_writer FOLDER COUNT`: takes or makes `system.journal` in FOLDER, appends COUNT lines, and
//! archives the file when it is full. What it prints has happened: `line NUMBER` for each appended
//! line, `aside` when it had to leave a file to readers, `closed`.

use std::io::{self, Write};
use std::path::Path;

use muster_journal::{
    AppendError, EntryTime, Id128, JournalWriter, NotContinuable, OpenWriterError, SeqnumSource,
    WriterOptions,
};

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn rename(folder: &Path, name: &str) {
    std::fs::rename(folder.join("system.journal"), folder.join(name)).expect("rename");
}

fn take(folder: &Path, options: &WriterOptions) -> JournalWriter {
    let path = folder.join("system.journal");
    let mut numbers = SeqnumSource {
        id: Id128::random().expect("an id"),
        next: 1,
    };
    match JournalWriter::open(&path, options) {
        Ok(writer) => return writer,
        Err(OpenWriterError::NotContinuable {
            reason: NotContinuable::NoHeader,
            ..
        }) => {
            std::fs::remove_file(&path).expect("remove");
        }
        Err(OpenWriterError::NotContinuable { .. }) => {
            say("aside");
            rename(folder, &format!("system@{}.journal~", numbers.id));
        }
        Err(OpenWriterError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => panic!("{error}"),
    }
    for file in muster_journal::list_files(folder).expect("list") {
        if let Some(summary) = file.summary {
            numbers = SeqnumSource {
                id: summary.seqnum_id,
                next: summary.seqnums.1 + 1,
            };
        }
    }
    JournalWriter::create(&path, options, numbers).expect("create")
}

fn main() {
    muster_fault::init(&[muster_journal::FAULT_POINTS]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count] = arguments.as_slice() else {
        panic!("FOLDER COUNT")
    };
    let folder = Path::new(folder);
    let count: u64 = count.parse().expect("a number");
    let boot_id = Id128::from_bytes([7; 16]);
    let mut options = WriterOptions::new(Id128::from_bytes([1; 16]), boot_id);
    options.max_size = 9 << 20;
    let mut writer = take(folder, &options);
    for _ in 0..count {
        let number = writer.seqnums().next;
        let when = EntryTime {
            realtime: 1_000_000 + number,
            monotonic: number,
            boot_id,
        };
        let unit = number % 7;
        // Some values are new, some known, some compressed; the long ones fill the file.
        let long = usize::try_from(unit).expect("small") * 200;
        let fields = [
            format!("MESSAGE=line {number}").into_bytes(),
            format!("_BOOT_ID={boot_id}").into_bytes(),
            format!("_SYSTEMD_UNIT=u{unit}.service").into_bytes(),
            format!("PRIORITY={}", number % 3).into_bytes(),
            format!("X_{}={number}", number % 50).into_bytes(),
            format!("LONG={}", "long ".repeat(long)).into_bytes(),
            noise(number),
        ];
        if matches!(writer.append(when, &fields), Err(AppendError::Full { .. })) {
            let done = writer.archive().expect("archive");
            rename(
                folder,
                &format!(
                    "system@{}-{:016x}.journal",
                    done.seqnum_id, done.head_seqnum
                ),
            );
            writer = JournalWriter::create(&folder.join("system.journal"), &options, done.seqnums)
                .expect("create");
            writer.append(when, &fields).expect("append to a new file");
        }
        writer.notify_readers().expect("notify");
        say(&format!("line {number}"));
        if number.is_multiple_of(100) {
            writer.sync().expect("sync");
        }
    }
    writer.close().expect("close");
    say("closed");
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = b"NOISE=".to_vec();
    for _ in 0..1700 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}
