//! Making a file, and taking an existing one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::append::Batch;
use super::cache::{ArrayTail, DataCache};
use super::lookup::{DamagedAt, Table};
use super::map::FileMap;
use super::stores::undo_interrupted;
use super::{
    GROWTH, JournalWriter, NotContinuable, OpenWriterError, SeqnumSource, WriterOptions, allocate,
    table_buckets,
};
use crate::format::{
    BUCKET_SIZE, Compressor, FIELD_NAME_MAX, FileState, HEADER_BYTES, Header, Id128, Layout,
    OBJECT_HEADER_SIZE, ObjectType, WRITER_BOOT, WRITTEN_HEADER_SIZE, align8, at, field, flags,
};

/// As many names as journald makes room for.
const FIELD_BUCKETS: u64 = 1023;
/// The smallest file: tables and a little room.
const MIN_SIZE: u64 = 512 << 10;
/// Both layouts keep the end of the chain of all entries in 32 bits.
const MAX_SIZE: u64 = 0xffff_fff8;

impl JournalWriter {
    /// Makes a new file; it must not exist. Only its owner and group may read it.
    ///
    /// # Errors
    /// [`OpenWriterError::Io`], [`OpenWriterError::SizeLimit`]. No file is left behind then.
    pub fn create(
        path: &Path,
        options: &WriterOptions,
        seqnums: SeqnumSource,
    ) -> Result<Self, OpenWriterError> {
        if !(MIN_SIZE..=MAX_SIZE).contains(&options.max_size) {
            let path = path.to_owned();
            let max_size = options.max_size;
            return Err(OpenWriterError::SizeLimit {
                path,
                max_size,
                least: MIN_SIZE,
                most: MAX_SIZE,
            });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(path)
            .map_err(|source| io_error("create", path, source))?;
        lock(&file, path)?;
        Self::fill(file, path, options, seqnums).inspect_err(|_| {
            // What could not be made whole would be in the way of the next attempt.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Makes a journal of an empty file.
    fn fill(
        file: File,
        path: &Path,
        options: &WriterOptions,
        seqnums: SeqnumSource,
    ) -> Result<Self, OpenWriterError> {
        let failed = |operation| move |source| io_error(operation, path, source);
        let data_table_size = table_buckets(options.max_size) * BUCKET_SIZE;
        let field_table_size = FIELD_BUCKETS * BUCKET_SIZE;
        let field_table = WRITTEN_HEADER_SIZE;
        let data_table = field_table + OBJECT_HEADER_SIZE + field_table_size;
        let end = data_table + OBJECT_HEADER_SIZE + data_table_size;
        let size = end.next_multiple_of(GROWTH).min(options.max_size);
        let flag = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
        let header = Header {
            incompatible_flags: flags::KEYED_HASH
                | flag(options.compress_above.is_some(), flags::ZSTD)
                | flag(options.compact, flags::COMPACT),
            state: FileState::Offline.byte(),
            file_id: Id128::random().map_err(failed("make an id for"))?,
            machine_id: options.machine_id,
            tail_entry_boot_id: options.boot_id,
            seqnum_id: seqnums.id,
            header_size: WRITTEN_HEADER_SIZE,
            arena_size: size - WRITTEN_HEADER_SIZE,
            data_hash_table_offset: data_table + OBJECT_HEADER_SIZE,
            data_hash_table_size: data_table_size,
            field_hash_table_offset: field_table + OBJECT_HEADER_SIZE,
            field_hash_table_size: field_table_size,
            tail_object_offset: data_table,
            n_objects: 2,
            ..Header::default()
        };
        allocate(&file, 0, size).map_err(failed("allocate"))?;
        muster_fault::hit(crate::faults::CREATING);
        for (offset, kind, table) in [
            (field_table, ObjectType::FieldHashTable, field_table_size),
            (data_table, ObjectType::DataHashTable, data_table_size),
        ] {
            let mut object = [0; 16];
            object[0] = kind.byte();
            object[8..].copy_from_slice(&(OBJECT_HEADER_SIZE + table).to_le_bytes());
            file.write_all_at(&object, offset)
                .map_err(failed("write"))?;
        }
        // The header last: without its signature the rest is no journal file.
        file.write_all_at(&header.to_bytes(), 0)
            .map_err(failed("write"))?;
        file.sync_all().map_err(failed("put on disk"))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))
            .and_then(|dir| dir.sync_all())
            .map_err(failed("put on disk the directory of"))?;
        let layout = Layout::new(options.compact);
        let mut writer = Self::over(file, path, options, header, layout, size)?;
        writer.next_seqnum = seqnums.next.max(1);
        writer.end = end;
        writer.claim(options.boot_id);
        Ok(writer)
    }

    /// Takes an existing file and continues it. An append that its last writer did not complete is
    /// taken back.
    ///
    /// # Errors
    /// [`OpenWriterError::NotContinuable`] says why the file is to be set aside.
    pub fn open(path: &Path, options: &WriterOptions) -> Result<Self, OpenWriterError> {
        let failed = |operation| move |source| io_error(operation, path, source);
        let refused = |reason| OpenWriterError::NotContinuable {
            path: path.to_owned(),
            reason,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed("open"))?;
        lock(&file, path)?;
        let size = file.metadata().map_err(failed("read the size of"))?.len();
        let header = read_header(&file)
            .map_err(failed("read"))?
            .ok_or_else(|| refused(NotContinuable::NoHeader))?;
        check(&header, size, options).map_err(refused)?;
        let layout = Layout::new(header.is_compact());
        let mut writer = Self::over(file, path, options, header, layout, size)?;
        writer.recover(options.boot_id).map_err(refused)?;
        writer.claim(options.boot_id);
        Ok(writer)
    }

    /// A writer over a file whose header was checked.
    fn over(
        file: File,
        path: &Path,
        options: &WriterOptions,
        header: Header,
        layout: Layout,
        size: u64,
    ) -> Result<Self, OpenWriterError> {
        let failed = |operation| move |source| io_error(operation, path, source);
        let max_size = options.max_size.max(size).min(MAX_SIZE);
        let map = FileMap::new(&file, max_size, size).map_err(failed("map"))?;
        let compressor = match options.compress_above {
            Some(above) if header.incompatible_flags & flags::ZSTD != 0 => Some((
                above,
                Compressor::new().map_err(failed("prepare compression for"))?,
            )),
            _ => None,
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            map,
            layout,
            key: header.file_id.hash_key(),
            data_table: Table {
                offset: header.data_hash_table_offset,
                buckets: header.data_hash_table_size / BUCKET_SIZE,
            },
            field_table: Table {
                offset: header.field_hash_table_offset,
                buckets: header.field_hash_table_size / BUCKET_SIZE,
            },
            fields: HashMap::new(),
            cache: DataCache::new(),
            entries: ArrayTail::default(),
            end: 0,
            next_seqnum: header.tail_entry_seqnum.saturating_add(1),
            header,
            max_size,
            compressor,
            batch: Batch::default(),
            damaged: None,
        })
    }

    /// Finds out what the header does not say.
    fn recover(&mut self, boot_id: Id128) -> Result<(), NotContinuable> {
        if self.state() == Some(FileState::Online) {
            // Within one boot every store of a dead writer is still there, in order.
            if self.writer_boot() != Some(boot_id) {
                return Err(NotContinuable::Unclean);
            }
            undo_interrupted(&mut self.map).ok_or(NotContinuable::Damaged {
                offset: crate::format::INTERRUPTED,
            })?;
            let state = self.header.state;
            let restored = self.map.read(0, crate::format::HEADER_SIZE);
            self.header = restored
                .and_then(|bytes| Header::parse(bytes.as_slice().try_into().ok()?))
                .ok_or(NotContinuable::NoHeader)?;
            self.header.state = state;
            self.next_seqnum = self.header.tail_entry_seqnum.saturating_add(1);
        }
        let tail = self.header.tail_object_offset;
        let damaged = || DamagedAt(tail);
        let kind = self.map.load(tail).ok_or_else(damaged)?.to_le_bytes()[0];
        let size = self.map.load(tail.saturating_add(8)).ok_or_else(damaged)?;
        let end = tail.checked_add(size).map(align8).ok_or_else(damaged)?;
        if ObjectType::from_byte(kind).is_none()
            || size < OBJECT_HEADER_SIZE
            || end > self.map.backed()
        {
            return Err(damaged().into());
        }
        self.end = end;
        // A writer that was killed while it made room, or cut the file, did not get to say so.
        self.header.arena_size = self.map.backed() - self.header.header_size;
        self.map
            .store(at::ARENA_SIZE, self.header.arena_size)
            .ok_or(DamagedAt(at::ARENA_SIZE))?;
        self.entries = self.chain_tail(self.header.entry_array_offset, self.header.n_entries)?;
        self.load_names()?;
        Ok(())
    }

    /// Reads all field objects: there are few, and every append needs some.
    fn load_names(&mut self) -> Result<(), DamagedAt> {
        for index in 0..self.field_table.buckets {
            let bucket = self.field_table.offset + index * BUCKET_SIZE;
            let mut offset = self.map.load(bucket).ok_or(DamagedAt(bucket))?;
            while offset != 0 {
                let damaged = || DamagedAt(offset);
                let size = self
                    .map
                    .load(offset.saturating_add(8))
                    .ok_or_else(damaged)?;
                let len = size
                    .checked_sub(field::PAYLOAD)
                    .filter(|len| usize::try_from(*len).is_ok_and(|len| len <= FIELD_NAME_MAX))
                    .ok_or_else(damaged)?;
                let name = self
                    .map
                    .read(offset + field::PAYLOAD, len)
                    .ok_or_else(damaged)?;
                let next = self
                    .map
                    .load(offset + field::NEXT_HASH)
                    .ok_or_else(damaged)?;
                if next != 0 && next <= offset {
                    return Err(damaged());
                }
                self.fields.insert(name.into(), offset);
                offset = next;
            }
        }
        Ok(())
    }

    fn writer_boot(&self) -> Option<Id128> {
        let bytes = self.map.read(WRITER_BOOT, 16)?;
        Some(Id128::from_bytes(bytes.as_slice().try_into().ok()?))
    }

    fn claim(&mut self, boot_id: Id128) {
        // Inside the header that was checked or just made, so it is mapped.
        let _ = self.map.write(WRITER_BOOT, boot_id.as_bytes());
    }
}

fn io_error(operation: &'static str, path: &Path, source: io::Error) -> OpenWriterError {
    OpenWriterError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// Makes sure that no other process writes to the file; the lock ends with its holder.
fn lock(file: &File, path: &Path) -> Result<(), OpenWriterError> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenWriterError::InUse {
            path: path.to_owned(),
        }),
        Err(error) => Err(io_error("lock", path, error.into())),
    }
}

fn read_header(file: &File) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(Header::parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this crate wrote the file, for this machine, and has not archived it.
fn check(header: &Header, size: u64, options: &WriterOptions) -> Result<(), NotContinuable> {
    let written = flags::KEYED_HASH | flags::ZSTD | flags::COMPACT;
    if header.header_size != WRITTEN_HEADER_SIZE
        || header.compatible_flags != 0
        || header.incompatible_flags & !written != 0
        || !header.is_keyed()
        || header.is_compact() != options.compact
        || size > MAX_SIZE
    {
        return Err(NotContinuable::Foreign);
    }
    if header.machine_id != options.machine_id {
        return Err(NotContinuable::OtherMachine);
    }
    match FileState::from_byte(header.state) {
        Some(FileState::Offline | FileState::Online) => {}
        Some(FileState::Archived) => return Err(NotContinuable::Archived),
        None => return Err(NotContinuable::NoHeader),
    }
    let table_fits = |offset: u64, len: u64| {
        len >= BUCKET_SIZE
            && len.is_multiple_of(BUCKET_SIZE)
            && offset.is_multiple_of(8)
            && offset.checked_add(len).is_some_and(|end| end <= size)
    };
    if header
        .arena_size
        .checked_add(header.header_size)
        .is_none_or(|end| end > size)
        || !table_fits(header.data_hash_table_offset, header.data_hash_table_size)
        || !table_fits(header.field_hash_table_offset, header.field_hash_table_size)
    {
        return Err(NotContinuable::Damaged { offset: 0 });
    }
    Ok(())
}
