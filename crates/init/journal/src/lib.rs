//! systemd's journal files, written and read without systemd.
//!
//! Muster's log daemon writes what `journalctl` reads, and `sctl logs` and the agents read what
//! either Muster or journald wrote. This crate is both sides: a writer for one owner per file, and a
//! reader that trusts nothing.
//!
//! # Writing
//! [`JournalWriter`] makes a file, or takes one that an earlier process left, appends to it, and ends
//! it. When an append finds it full, or [`JournalWriter::rotation_due`] says so, its owner archives it
//! and makes the next one, which continues the numbers.
//! ```
//! use muster_journal::{
//!     EntryTime, Id128, Journal, JournalWriter, Matches, SeqnumSource, WriterOptions,
//! };
//! # let dir = tempfile::tempdir()?;
//! # let (machine_id, boot_id) = (Id128::random()?, Id128::random()?);
//! # let now = 1_700_000_000_000_000;
//! let options = WriterOptions::new(machine_id, boot_id);
//! let numbers = SeqnumSource { id: Id128::random()?, next: 1 };
//! let path = dir.path().join("system.journal");
//! let mut writer = JournalWriter::create(&path, &options, numbers)?;
//! let when = EntryTime { realtime: now, monotonic: 10, boot_id };
//! let boot = format!("_BOOT_ID={boot_id}");
//! writer.append(when, &["MESSAGE=hello", "_SYSTEMD_UNIT=a.service", &boot])?;
//! writer.notify_readers()?; // after a batch
//! writer.sync()?; // now and then
//!
//! let mut journal = Journal::open_dir(dir.path())?;
//! let mut matches = Matches::new();
//! matches.add(b"_SYSTEMD_UNIT=a.service");
//! journal.set_matches(matches);
//! journal.seek_tail()?;
//! let entry = journal.previous_entry()?.expect("one entry");
//! assert_eq!(entry.field(b"MESSAGE")?.as_deref(), Some(b"hello".as_slice()));
//! # writer.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! The writer adds no fields of its own. Whoever writes gives every entry its `_BOOT_ID=`: boots and
//! times since boot are looked up by that value.
//!
//! # Reading
//! [`Journal`] merges all files of a directory: places by head, tail, time, number and
//! [`Cursor`], steps in both directions, [`Matches`], values of a field, boots, and waiting for more.
//! An [`Entry`] stays readable for as long as it is kept. [`verify()`] checks one file completely.
//!
//! # What is in a file
//! | part | what |
//! |---|---|
//! | header | ids, counters, where things are |
//! | data | one value, `NAME=value`, stored once per file however often it occurs; starts a chain of entry arrays |
//! | field | one name; starts the list of its values |
//! | entry | times, number, and references to its values |
//! | entry array | a sorted list of entries; each further one of a chain is twice as large |
//! | hash tables | values by hash, names by hash |
//!
//! So "the last fifty lines of one service" is a hash lookup and a walk down the end of one chain,
//! whatever the size of the file.
//!
//! # Invariants
//! - An append is complete or has not happened, also when the process is killed amid it: new objects
//!   go where nothing refers to them, and the words that link them in are first written down so that
//!   the next writer can put them back.
//! - A file that was open when the machine went down is never written to again; its owner sets it
//!   aside, and it is read as far as it makes sense, which is at least up to the last
//!   [`JournalWriter::sync`].
//! - Readers check every offset where they use it, follow chains only forward, and bound what they
//!   allocate. No file makes them panic or run for ever.
//! - The reader does not map files: one that is cut off while it is read gives a short answer, not a
//!   signal.
//! - One writer per file; any number of readers at any time, of either implementation.
//!
//! # What this crate does not do
//! It starts no threads, reads no clock, and decides neither when to sync, what to call a file that is
//! done, nor what to delete. It writes no seals (Forward Secure Sealing), and it does not unpack
//! xz, which journald has not written since 2014: such a value is an error that says so. It installs no
//! signal handlers: the writer has its file mapped, so a disk that fails under it, or somebody who cuts
//! the file, ends the process with `SIGBUS`, and the next one sets the file aside.

mod cursor;
mod entry;
mod faults;
mod file;
mod format;
mod journal;
mod matches;
mod verify;
mod writer;

pub use cursor::{Cursor, ParseCursorError};
pub use entry::Entry;
pub use faults::FAULT_POINTS;
pub use file::{FileSummary, JournalFile, OpenFileError, ReadError};
pub use format::{
    DATA_SIZE_MAX, DecompressError, ENTRY_FIELDS_MAX, FIELD_NAME_MAX, FileState, Id128,
    ParseIdError,
};
pub use journal::{
    Boot, Change, FileKind, Journal, JournalFileInfo, OpenDirError, WatchError, disk_usage,
    list_files,
};
pub use matches::Matches;
pub use verify::{Verified, VerifyError, verify};
pub use writer::{
    AppendError, Appended, ArchivedFile, CloseError, EntryTime, JournalWriter, NotContinuable,
    OpenWriterError, RotateReason, SeqnumSource, WriterOptions, is_field_name,
};
