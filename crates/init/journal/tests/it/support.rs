//! What the tests share: entries, files made from them, and systemd's tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_journal::{
    AppendError, Appended, EntryTime, Id128, Journal, JournalWriter, SeqnumSource, WriterOptions,
};

/// A fixed machine.
pub(crate) fn machine() -> Id128 {
    "3d1219c7c4c5404aaa1f6d2a48adfda4".parse().expect("an id")
}

/// The `n`-th boot of that machine.
pub(crate) fn boot(n: u8) -> Id128 {
    let mut bytes = [0xb0; 16];
    bytes[15] = n;
    Id128::from_bytes(bytes)
}

pub(crate) fn options() -> WriterOptions {
    let mut options = WriterOptions::new(machine(), boot(1));
    options.max_size = 16 << 20;
    options
}

/// A time `n` microseconds into the tests' epoch.
pub(crate) fn at(n: u64) -> EntryTime {
    EntryTime {
        realtime: 1_700_000_000_000_000 + n,
        monotonic: 1_000_000 + n,
        boot_id: boot(1),
    }
}

/// A log line with the fields that a log daemon adds.
pub(crate) fn line(unit: u32, message: &str) -> Vec<Vec<u8>> {
    line_of_boot(boot(1), unit, message)
}

pub(crate) fn line_of_boot(boot: Id128, unit: u32, message: &str) -> Vec<Vec<u8>> {
    [
        format!("MESSAGE={message}"),
        "PRIORITY=6".into(),
        "_TRANSPORT=stdout".into(),
        format!("SYSLOG_IDENTIFIER=prog{unit}"),
        format!("_PID={}", 1000 + unit),
        "_UID=0".into(),
        "_GID=0".into(),
        format!("_COMM=prog{unit}"),
        format!("_EXE=/usr/bin/prog{unit}"),
        format!("_CMDLINE=/usr/bin/prog{unit} --serve"),
        "_CAP_EFFECTIVE=1ffffffffff".into(),
        format!("_SYSTEMD_CGROUP=/system.slice/u{unit}.service"),
        format!("_SYSTEMD_UNIT=u{unit}.service"),
        "_SYSTEMD_SLICE=system.slice".into(),
        format!("_BOOT_ID={boot}"),
        format!("_MACHINE_ID={}", machine()),
        "_HOSTNAME=host".into(),
    ]
    .map(String::into_bytes)
    .into()
}

/// Runs `journalctl`; it must succeed.
pub(crate) fn journalctl(args: &[&str]) -> String {
    let output = Command::new("journalctl")
        .args(args)
        .args(["--no-pager", "--quiet"])
        .env("TZ", "UTC")
        .output()
        .expect("journalctl of the package systemd");
    assert!(
        output.status.success(),
        "journalctl {args:?}: {}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Both verifiers agree that the file is in order.
pub(crate) fn assert_verified(path: &Path) {
    muster_journal::verify(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    journalctl(&["--verify", "--file", path.to_str().expect("text")]);
}

/// All messages from here to the end.
pub(crate) fn messages_forward(journal: &mut Journal) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(entry) = journal.next_entry().expect("read") {
        messages.push(message(&entry));
    }
    messages
}

/// All messages from here to the start.
pub(crate) fn messages_backward(journal: &mut Journal) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(entry) = journal.previous_entry().expect("read") {
        messages.push(message(&entry));
    }
    messages
}

pub(crate) fn message(entry: &muster_journal::Entry) -> String {
    let message = entry.field(b"MESSAGE").expect("read").expect("a message");
    String::from_utf8(message).expect("text")
}

/// The least that an owner of journal files does: archive a full one and go on with the next.
pub(crate) struct Rotating {
    dir: PathBuf,
    options: WriterOptions,
    pub(crate) writer: JournalWriter,
    pub(crate) archived: usize,
}

impl Rotating {
    pub(crate) fn new(dir: &Path, options: WriterOptions) -> Self {
        let numbers = SeqnumSource {
            id: boot(9),
            next: 1,
        };
        let writer = JournalWriter::create(&dir.join("system.journal"), &options, numbers);
        let writer = writer.expect("create");
        Self {
            dir: dir.to_owned(),
            options,
            writer,
            archived: 0,
        }
    }

    pub(crate) fn append(&mut self, when: EntryTime, fields: &[Vec<u8>]) -> Appended {
        if self.writer.rotation_due().is_some() {
            self.rotate();
        }
        match self.writer.append(when, fields) {
            Err(AppendError::Full { .. }) => {
                self.rotate();
                self.writer
                    .append(when, fields)
                    .expect("append to a new file")
            }
            result => result.expect("append"),
        }
    }

    /// Closes the file and takes it again, as a new process would.
    pub(crate) fn reopen(&mut self) {
        if self.writer.n_entries() == 0 {
            return;
        }
        // One process at a time has the file, so the old writer gives it up for a spare one first.
        let (path, spare) = (self.dir.join("system.journal"), self.dir.join("spare"));
        let numbers = self.writer.seqnums();
        let other = JournalWriter::create(&spare, &self.options, numbers).expect("create");
        let old = std::mem::replace(&mut self.writer, other);
        old.close().expect("close");
        self.writer = JournalWriter::open(&path, &self.options).expect("take");
        std::fs::remove_file(&spare).expect("remove");
    }

    pub(crate) fn rotate(&mut self) {
        if self.writer.n_entries() == 0 {
            return;
        }
        let path = self.dir.join("system.journal");
        let spare = self.dir.join("spare");
        let numbers = self.writer.seqnums();
        let next = JournalWriter::create(&spare, &self.options, numbers).expect("create");
        let done = std::mem::replace(&mut self.writer, next)
            .archive()
            .expect("archive");
        assert_eq!(done.seqnums, numbers);
        let name = format!(
            "system@{}-{:016x}-{:016x}.journal",
            done.seqnum_id, done.head_seqnum, done.head_realtime
        );
        std::fs::rename(&path, self.dir.join(name)).expect("rename");
        std::fs::rename(&spare, &path).expect("rename");
        self.archived += 1;
    }
}
