//! Writing one file.

mod append;
mod cache;
mod error;
mod fields;
mod lookup;
mod map;
mod open;
mod options;
mod stores;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use muster_fault::hit;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, ftruncate};

pub use self::error::{AppendError, CloseError, NotContinuable, OpenWriterError};
pub use self::fields::is_field_name;
pub use self::options::{Appended, ArchivedFile, EntryTime, SeqnumSource, WriterOptions};

use self::append::{Batch, BatchError};
use self::cache::{ArrayTail, DataCache};
use self::fields::check_fields;
use self::lookup::{DamagedAt, Table};
use self::map::FileMap;
use crate::faults::{ARCHIVED, CUTTING, GROWN, SYNCED};
use crate::format::{Compressor, FileState, Header, Layout, TIME_MAX, align8, at};

/// Disk space is taken in steps of this size, so that the file does not end up in small pieces.
const GROWTH: u64 = 8 << 20;

/// A chain of values with one bucket that is longer than this means that the table is too small, or
/// under attack.
const CHAIN_DEPTH_MAX: u64 = 100;

/// Why a file should be rotated although it has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotateReason {
    /// The table of values is three quarters full.
    DataTableFull,
    /// The table of field names is three quarters full.
    FieldTableFull,
    /// Many values share one bucket.
    LongChain,
}

/// A journal file that is being written; there is one writer per file.
///
/// An append is in the file when [`append`](Self::append) returns: a killed process loses nothing.
/// It is on disk after [`sync`](Self::sync).
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    map: FileMap,
    header: Header,
    layout: Layout,
    key: (u64, u64),
    data_table: Table,
    field_table: Table,
    /// Field objects by name.
    fields: HashMap<Box<[u8]>, u64>,
    cache: DataCache,
    /// The last array of the chain of all entries.
    entries: ArrayTail,
    /// The end of the used part.
    end: u64,
    next_seqnum: u64,
    max_size: u64,
    compressor: Option<(usize, Compressor)>,
    batch: Batch,
    /// Where damage was found; nothing is written any more.
    damaged: Option<u64>,
}

impl JournalWriter {
    /// Appends an entry. Each field is `NAME=value`; the value may be any bytes. A value that stands
    /// twice is stored once.
    ///
    /// An entry is never older than the one before it in the same boot: a monotonic time that goes
    /// back is lifted to that of the predecessor.
    ///
    /// # Errors
    /// [`AppendError`]; the file is then as it was. After [`AppendError::Damaged`] no append succeeds.
    pub fn append<F: AsRef<[u8]>>(
        &mut self,
        mut when: EntryTime,
        fields: &[F],
    ) -> Result<Appended, AppendError> {
        check_fields(fields)?;
        if when.realtime == 0 || when.realtime >= TIME_MAX || when.monotonic >= TIME_MAX {
            return Err(AppendError::Time);
        }
        if let Some(offset) = self.damaged {
            return Err(AppendError::Damaged {
                path: self.path.clone(),
                offset,
            });
        }
        if when.boot_id == self.header.tail_entry_boot_id {
            when.monotonic = when.monotonic.max(self.header.tail_entry_monotonic);
        }
        self.set_online()?;
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.append_batch(&mut batch, when, fields);
        self.batch = batch;
        result.map_err(|error| match error {
            BatchError::Full => AppendError::Full {
                path: self.path.clone(),
            },
            BatchError::Grow(source) => self.io("grow", source),
            BatchError::Damaged(offset) => {
                self.damaged = Some(offset);
                AppendError::Damaged {
                    path: self.path.clone(),
                    offset,
                }
            }
        })
    }

    /// Puts everything on disk and marks the file as closed, which the next append takes back.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync(&mut self) -> Result<(), CloseError> {
        if self.state() != Some(FileState::Online) {
            return Ok(());
        }
        self.put_on_disk()?;
        hit(SYNCED);
        self.set_state(FileState::Offline);
        self.map.release();
        self.put_on_disk()
    }

    /// [`sync`](Self::sync), then gives the file up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.sync()
    }

    /// Ends the file: it is cut to its used part, put on disk, and marked so that nobody writes to it
    /// again. Renaming it is the caller's.
    ///
    /// # Errors
    /// The kernel's.
    pub fn archive(mut self) -> Result<ArchivedFile, CloseError> {
        self.sync()?;
        self.header.arena_size = self.end - self.header.header_size;
        // The header first: a file shorter than it says is refused by readers.
        let _ = self.map.store(at::ARENA_SIZE, self.header.arena_size);
        hit(CUTTING);
        self.map.set_backed(self.end);
        ftruncate(&self.file, self.end).map_err(|error| self.close_error("cut", error.into()))?;
        self.set_state(FileState::Archived);
        self.put_on_disk()?;
        hit(ARCHIVED);
        Ok(ArchivedFile {
            seqnum_id: self.header.seqnum_id,
            head_seqnum: self.header.head_entry_seqnum,
            head_realtime: self.header.head_entry_realtime,
            seqnums: self.seqnums(),
        })
    }

    /// Wakes readers that follow the file: stores to mapped memory do not by themselves.
    ///
    /// # Errors
    /// The kernel's.
    pub fn notify_readers(&self) -> Result<(), CloseError> {
        ftruncate(&self.file, self.map.backed())
            .map_err(|error| self.close_error("touch", error.into()))
    }

    /// Whether the file should be rotated although it has room.
    #[must_use]
    pub fn rotation_due(&self) -> Option<RotateReason> {
        let full =
            |used: u64, table: Table| used.saturating_mul(4) > table.buckets.saturating_mul(3);
        if full(self.header.n_data, self.data_table) {
            Some(RotateReason::DataTableFull)
        } else if full(self.header.n_fields, self.field_table) {
            Some(RotateReason::FieldTableFull)
        } else if self.header.data_hash_chain_depth > CHAIN_DEPTH_MAX {
            Some(RotateReason::LongChain)
        } else {
            None
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the numbers of the next entries come from.
    #[must_use]
    pub fn seqnums(&self) -> SeqnumSource {
        SeqnumSource {
            id: self.header.seqnum_id,
            next: self.next_seqnum,
        }
    }

    /// How many entries the file holds.
    #[must_use]
    pub fn n_entries(&self) -> u64 {
        self.header.n_entries
    }

    /// The wall clock times of the first and the last entry.
    #[must_use]
    pub fn realtime_range(&self) -> Option<(u64, u64)> {
        (self.header.n_entries > 0).then_some((
            self.header.head_entry_realtime,
            self.header.tail_entry_realtime,
        ))
    }

    /// Bytes that the file takes on disk.
    #[must_use]
    pub fn disk_usage(&self) -> u64 {
        self.map.backed()
    }

    /// Makes sure that `needed` bytes behind the used part exist.
    fn make_room(&mut self, needed: u64) -> Result<(), BatchError> {
        let end = self.end.saturating_add(needed);
        let backed = self.map.backed();
        if end <= backed {
            return Ok(());
        }
        if end > self.max_size {
            return Err(BatchError::Full);
        }
        let grown = end.next_multiple_of(GROWTH).min(self.max_size);
        allocate(&self.file, backed, grown).map_err(BatchError::Grow)?;
        hit(GROWN);
        self.map.set_backed(grown);
        self.header.arena_size = grown - self.header.header_size;
        self.map
            .store(at::ARENA_SIZE, self.header.arena_size)
            .ok_or(BatchError::Damaged(at::ARENA_SIZE))
    }

    fn state(&self) -> Option<FileState> {
        FileState::from_byte(self.header.state)
    }

    fn set_state(&mut self, state: FileState) {
        self.header.state = state.byte();
        // The bytes behind the state are reserved and zero. The header is always mapped.
        let _ = self.map.store(at::STATE, u64::from(state.byte()));
    }

    /// Marks the file as being written, on disk too, before anything is changed: after a power cut
    /// nobody takes it for complete.
    fn set_online(&mut self) -> Result<(), AppendError> {
        if self.state() == Some(FileState::Online) {
            return Ok(());
        }
        self.set_state(FileState::Online);
        fdatasync(&self.file).map_err(|error| self.io("mark as open", error.into()))
    }

    fn put_on_disk(&self) -> Result<(), CloseError> {
        fdatasync(&self.file).map_err(|error| self.close_error("put on disk", error.into()))
    }

    fn close_error(&self, operation: &'static str, source: io::Error) -> CloseError {
        CloseError {
            operation,
            path: self.path.clone(),
            source,
        }
    }

    fn io(&self, operation: &'static str, source: io::Error) -> AppendError {
        AppendError::Io {
            operation,
            path: self.path.clone(),
            source,
        }
    }
}

/// Extends the file with real disk space, so that a full disk is an error here and not a signal later.
fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), from, to - from) {
        Ok(()) => Ok(()),
        // Not every file system can reserve space; writing takes it just as well.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            use std::os::unix::fs::FileExt;
            let zeros = vec![0; 1 << 16];
            let mut at = from;
            while at < to {
                let len = usize::try_from(to - at)
                    .unwrap_or(zeros.len())
                    .min(zeros.len());
                file.write_all_at(&zeros[..len], at)?;
                at += u64::try_from(len).unwrap_or(to - at);
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Rounds the sizes of a new file's hash tables.
fn table_buckets(max_size: u64) -> u64 {
    // A log line brings one new value, its message, and takes some 350 bytes in all; a quarter of the
    // table stays free.
    align8(max_size / 264).max(2048)
}

impl From<DamagedAt> for NotContinuable {
    fn from(DamagedAt(offset): DamagedAt) -> Self {
        Self::Damaged { offset }
    }
}
