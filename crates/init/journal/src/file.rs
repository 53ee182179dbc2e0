//! Reading one file.
//!
//! A file may be damaged, hostile, cut off or growing while it is read. Every offset is checked where
//! it is used, every chain must lead forward in the file, and what does not fit together is either
//! stepped over or a [`ReadError`] that says where.

mod chain;
mod error;
mod object;
mod search;
mod source;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use self::chain::{Chain, Direction};
pub(crate) use self::error::{Fault, skip_damage};
pub use self::error::{OpenFileError, ReadError};
pub(crate) use self::object::{DataObject, EntryObject};
use self::source::{Source, SourceError};
use crate::format::{
    BUCKET_SIZE, FileState, HEADER_BYTES, HEADER_SIZE_MIN, Header, Id128, Layout, flags, jenkins64,
    siphash24,
};

/// What changes while a file is read.
#[derive(Debug, Clone)]
struct Snapshot {
    header: Header,
    /// Bytes of the file.
    size: u64,
}

/// A journal file that is open for reading; written by journald or by Muster, in any state.
pub struct JournalFile {
    source: Source,
    path: PathBuf,
    inode: (u64, u64),
    layout: Layout,
    header_size: u64,
    /// None in files that use the unkeyed hash function.
    key: Option<(u64, u64)>,
    seqnum_id: Id128,
    snapshot: Mutex<Snapshot>,
}

/// What a file's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSummary {
    /// Whether somebody writes to it.
    pub state: FileState,
    /// The machine.
    pub machine_id: Id128,
    /// The source of its sequence numbers.
    pub seqnum_id: Id128,
    /// How many entries it has.
    pub n_entries: u64,
    /// The first and the last sequence number.
    pub seqnums: (u64, u64),
    /// The wall clock times of the first and the last entry, in microseconds.
    pub realtime: (u64, u64),
}

impl JournalFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`OpenFileError`] when there is no journal file of a known version at `path`.
    pub fn open(path: &Path) -> Result<Self, OpenFileError> {
        let io = |source| OpenFileError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let wrong = |problem| OpenFileError::NotAJournal {
            path: path.to_owned(),
            problem,
        };
        if !metadata.is_file() {
            return Err(wrong("not a regular file"));
        }
        let inode = (metadata.dev(), metadata.ino());
        let source = Source::new(file);
        let header = match read_header(&source) {
            Ok(header) => header.ok_or_else(|| wrong("its signature is wrong"))?,
            Err(SourceError::Io(source)) => return Err(io(source)),
            Err(SourceError::End) => return Err(wrong("it ends within its header")),
        };
        check(&header, metadata.len()).map_err(wrong)?;
        let unknown = header.incompatible_flags & !flags::KNOWN;
        if unknown != 0 {
            return Err(OpenFileError::UnknownFeatures {
                path: path.to_owned(),
                flags: unknown,
            });
        }
        Ok(Self {
            source,
            path: path.to_owned(),
            inode,
            layout: Layout::new(header.is_compact()),
            header_size: header.header_size,
            key: header.is_keyed().then(|| header.file_id.hash_key()),
            seqnum_id: header.seqnum_id,
            snapshot: Mutex::new(Snapshot {
                header,
                size: metadata.len(),
            }),
        })
    }

    /// The path under which the file was opened; a rotated file has another name by now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies the file across renames: device and inode.
    pub(crate) fn inode(&self) -> (u64, u64) {
        self.inode
    }

    fn snapshot(&self) -> MutexGuard<'_, Snapshot> {
        // Replaced as a whole, so a panic of another reader cannot leave half of one.
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the header said when the file was opened or last refreshed.
    #[must_use]
    pub fn summary(&self) -> FileSummary {
        let snapshot = self.snapshot();
        let header = &snapshot.header;
        FileSummary {
            state: FileState::from_byte(header.state).unwrap_or(FileState::Online),
            machine_id: header.machine_id,
            seqnum_id: header.seqnum_id,
            n_entries: header.n_entries,
            seqnums: (header.head_entry_seqnum, header.tail_entry_seqnum),
            realtime: (header.head_entry_realtime, header.tail_entry_realtime),
        }
    }

    pub(crate) fn header(&self) -> Header {
        self.snapshot().header.clone()
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.snapshot().size
    }

    pub(crate) fn seqnum_id(&self) -> Id128 {
        self.seqnum_id
    }

    /// Takes note of what was appended since the file was opened.
    pub(crate) fn refresh(&self) -> Result<(), Fault> {
        self.source.forget();
        let size = self
            .source
            .file()
            .metadata()
            .map_err(|source| Fault::Io { offset: 0, source })?;
        let header = read_header(&self.source)
            .map_err(|error| Fault::from_source(0, "header", error))?
            .filter(|header| check(header, size.len()).is_ok())
            .ok_or(Fault::damaged(0, "header", "is not valid any more"))?;
        *self.snapshot() = Snapshot {
            header,
            size: size.len(),
        };
        Ok(())
    }

    pub(crate) fn release_memory(&self) {
        self.source.release();
    }

    pub(crate) fn fail(&self, fault: Fault) -> ReadError {
        fault.in_file(self.path.clone())
    }

    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        match self.key {
            Some(key) => siphash24(key, bytes),
            None => jenkins64(bytes),
        }
    }
}

impl std::fmt::Debug for JournalFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn read_header(source: &Source) -> Result<Option<Header>, SourceError> {
    let mut bytes = [0; HEADER_BYTES];
    // Old files have a shorter header; what lies behind it is not looked at.
    source.read(0, &mut bytes)?;
    Ok(Header::parse(&bytes))
}

/// What must hold for anything else to be looked at.
fn check(header: &Header, size: u64) -> Result<(), &'static str> {
    if header.header_size < HEADER_SIZE_MIN || !header.header_size.is_multiple_of(8) {
        return Err("its header is too short");
    }
    let table_fits = |offset: u64, len: u64| {
        offset >= header.header_size
            && offset.is_multiple_of(8)
            && len >= BUCKET_SIZE
            && offset.checked_add(len).is_some_and(|end| end <= size)
    };
    // journald makes the tables with the first entry.
    let no_tables = header.data_hash_table_offset == 0 && header.n_entries == 0;
    if !no_tables
        && (!table_fits(header.data_hash_table_offset, header.data_hash_table_size)
            || !table_fits(header.field_hash_table_offset, header.field_hash_table_size))
    {
        return Err("its hash tables lie outside of it");
    }
    Ok(())
}
