//! Where entries go: the active file, its successors, and the limits of all of them.
//!
//! A [`Store`] has at most one file open, in the folder of `/run` or of `/var`. It rotates by size, age and
//! the file's own wish, vacuums when it rotates, moves from memory to disk when the disk is there, and goes
//! on when a disk is full: entries that cannot be kept are counted, and the count is told when it is over.

mod folder;
mod medium;

use muster_journal::{
    AppendError, EntryTime, Id128, JournalWriter, OpenWriterError, SeqnumSource, WriterOptions,
};
use thiserror::Error;

pub use self::folder::{Folder, FolderError};
pub use self::medium::{Medium, Places};
use crate::config::{Config, Storage};
use crate::faults;
use crate::origin::Host;
use crate::parse::priority::Level;
use crate::policy::budget::{SpaceConfig, SpaceLimits};
use crate::policy::retention::{ArchivedFile, Retention, plan_vacuum};
use crate::state::{Ledger, Progress};

/// How long a disk that refused is left alone, in microseconds.
const RETRY_US: u64 = 1_000_000;
/// For how long the free space is believed, in microseconds.
const SPACE_US: u64 = 30_000_000;
/// How soon readers that follow the file are woken, in microseconds.
const NOTIFY_US: u64 = 20_000;
/// How often a store in memory looks whether the disk is there, in microseconds.
const FLUSH_RETRY_US: u64 = 10_000_000;

/// How often files are looked at that may have become too old, in microseconds.
const RETENTION_US: u64 = 3_600_000_000;

/// Why the store cannot do what was asked for.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A folder or a file in it.
    #[error("cannot arrange the journal files")]
    Folder(#[source] FolderError),
    /// The active file cannot be opened or made.
    #[error("cannot open a journal file")]
    Open(#[source] OpenWriterError),
    /// The active file cannot be ended.
    #[error("cannot end a journal file")]
    Close(#[source] muster_journal::CloseError),
}

/// When something is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds since 1970.
    pub realtime_us: u64,
    /// Microseconds since boot.
    pub monotonic_us: u64,
}

/// What the store has done, for status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Entries in the journal.
    pub stored: u64,
    /// Entries that could not be kept.
    pub lost: u64,
    /// Files that were ended.
    pub rotations: u64,
    /// Files that were removed.
    pub removed_files: u64,
    /// Times that everything was put on disk.
    pub syncs: u64,
}

#[derive(Debug)]
struct Active {
    writer: JournalWriter,
    medium: Medium,
    limits: SpaceLimits,
}

/// The journal as logd writes it.
#[derive(Debug)]
pub struct Store {
    places: Places,
    storage: Storage,
    system: SpaceConfig,
    runtime: SpaceConfig,
    compress_above: Option<usize>,
    max_file_us: u64,
    max_retention_us: u64,
    sync_interval_us: u64,
    machine_id: Id128,
    boot_id: Id128,
    active: Option<Active>,
    /// The disk refused; not before this time it is asked again.
    refused_until_us: u64,
    /// Entries lost that nobody has been told of.
    untold_loss: u64,
    /// The free space when it was last looked at, and when that was.
    space: (u64, u64),
    sync_at_us: Option<u64>,
    notify_at_us: Option<u64>,
    flush_at_us: u64,
    /// When files are looked at that may have become too old; never if no age is configured.
    retention_at_us: Option<u64>,
    /// `/var` is not to be used before it is said so.
    wait_for_flush: bool,
    /// What went wrong behind the scenes, until somebody asks.
    problem: Option<StoreError>,
    counters: StoreCounters,
}

impl Store {
    /// A store that has no file open yet.
    #[must_use]
    pub fn new(config: &Config, host: &Host, places: Places, wait_for_flush: bool) -> Self {
        Self {
            places,
            storage: config.storage,
            system: config.system,
            runtime: config.runtime,
            compress_above: config.compress_above,
            max_file_us: config.max_file_us,
            max_retention_us: config.max_retention_us,
            sync_interval_us: config.sync_interval_us,
            machine_id: host.machine_id,
            boot_id: host.boot_id,
            active: None,
            refused_until_us: 0,
            untold_loss: 0,
            space: (0, 0),
            sync_at_us: None,
            notify_at_us: None,
            flush_at_us: 0,
            retention_at_us: (config.max_retention_us > 0).then_some(0),
            wait_for_flush,
            problem: None,
            counters: StoreCounters::default(),
        }
    }

    /// Opens the active file, where there is one to be.
    ///
    /// # Errors
    /// If neither the disk nor memory can be used. The store works, and tries again.
    pub fn open(&mut self, now: Stamp) -> Result<(), StoreError> {
        if self.active.is_some() || self.storage == Storage::None {
            return Ok(());
        }
        if self.may_use_disk() {
            match self.open_in(Medium::Disk, now) {
                Ok(()) => return Ok(()),
                Err(error) => self.problem = Some(error),
            }
        }
        // Also when only the disk is configured: what is said before it is there must not be lost.
        self.open_in(Medium::Memory, now)
    }

    fn may_use_disk(&self) -> bool {
        !self.wait_for_flush && self.places.disk_is_wanted(self.storage)
    }

    fn open_in(&mut self, medium: Medium, now: Stamp) -> Result<(), StoreError> {
        let folder = self.places.folder(medium);
        folder.make().map_err(StoreError::Folder)?;
        let disk = folder.file_system().map_err(StoreError::Folder)?;
        let config = match medium {
            Medium::Disk => &self.system,
            Medium::Memory => &self.runtime,
        };
        let limits = config.limits(disk);
        let options = self.options(&limits);
        let folder = self.places.folder(medium);
        let writer = match JournalWriter::open(&folder.active(), &options) {
            // Without an entry a file does not know which number is next, so it is made anew.
            Ok(writer) if writer.n_entries() > 0 => writer,
            Ok(_) => {
                folder.remove_active().map_err(StoreError::Folder)?;
                self.create(medium, &options, None)?
            }
            Err(OpenWriterError::NotContinuable { reason, .. }) => {
                folder
                    .clear_active(reason, now.realtime_us)
                    .map_err(StoreError::Folder)?;
                self.create(medium, &options, None)?
            }
            Err(OpenWriterError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                self.create(medium, &options, None)?
            }
            Err(error) => return Err(StoreError::Open(error)),
        };
        self.active = Some(Active {
            writer,
            medium,
            limits,
        });
        self.space = (disk.free, now.monotonic_us);
        self.flush_at_us = now.monotonic_us + FLUSH_RETRY_US;
        if medium == Medium::Disk {
            // What an earlier process has begun to move is moved to its end.
            let moved = self.move_from_memory(now).map_err(StoreError::Folder);
            self.problem = moved.err().or(self.problem.take());
        }
        self.vacuum(now, None).map(drop)
    }

    fn options(&self, limits: &SpaceLimits) -> WriterOptions {
        let mut options = WriterOptions::new(self.machine_id, self.boot_id);
        options.compress_above = self.compress_above;
        options.max_size = limits.max_file_size.min(u64::from(u32::MAX) & !7);
        options
    }

    fn create(
        &mut self,
        medium: Medium,
        options: &WriterOptions,
        seqnums: Option<SeqnumSource>,
    ) -> Result<JournalWriter, StoreError> {
        let folder = self.places.folder(medium);
        let seqnums = match seqnums {
            Some(seqnums) => seqnums,
            None => SeqnumSource {
                id: Id128::random().map_err(|source| {
                    StoreError::Folder(FolderError {
                        operation: "make an id for",
                        path: folder.active(),
                        source,
                    })
                })?,
                next: 1,
            },
        };
        loop {
            let error = match JournalWriter::create(&folder.active(), options, seqnums) {
                Ok(writer) => return Ok(writer),
                Err(error) => error,
            };
            // A file that could not be made whole is in the way of the next attempt.
            folder.remove_active().map_err(StoreError::Folder)?;
            // New entries are worth more than the oldest, where the disk has no room for both.
            let mut archived = folder.archived().map_err(StoreError::Folder)?;
            archived.sort_by_key(|file| std::cmp::Reverse(file.newest_us));
            match archived.pop() {
                Some(oldest) if is_out_of_space(&error) => {
                    folder.remove(&oldest.name).map_err(StoreError::Folder)?;
                    self.counters.removed_files += 1;
                }
                _ => return Err(StoreError::Open(error)),
            }
        }
    }

    /// The number of the last entry in the file that the last process wrote to; 0 if there is none. To be asked before
    /// [`Store::open`], which may begin another file whose numbers mean nothing to whoever wrote to this one.
    #[must_use]
    pub fn left_sequence(&self) -> u64 {
        if self.storage == Storage::None {
            return 0;
        }
        let options = WriterOptions::new(self.machine_id, self.boot_id);
        let of = |medium| {
            let active = self.places.folder(medium).active();
            let writer = JournalWriter::open(&active, &options).ok()?;
            (writer.n_entries() > 0).then(|| writer.seqnums().next.saturating_sub(1))
        };
        // While there is one in memory, nobody has written to the disk: that begins by ending it.
        of(Medium::Memory).or_else(|| of(Medium::Disk)).unwrap_or(0)
    }

    /// The number of the last entry in the active file; 0 if there is none.
    #[cfg(test)]
    pub(crate) fn last_sequence(&self) -> u64 {
        let next = self
            .active
            .as_ref()
            .map(|active| active.writer.seqnums().next);
        next.map_or(0, |next| next.saturating_sub(1))
    }

    /// Appends an entry and moves `progress` forward with it, in one step as far as a kill can see. Progress
    /// is made also if the entry is lost. Says whether it is kept.
    pub fn append(
        &mut self,
        ledger: &mut Ledger,
        progress: Option<Progress>,
        now: Stamp,
        level: Level,
        fields: &[&[u8]],
    ) -> bool {
        let kept = self.storage != Storage::None && self.try_append(ledger, progress, now, fields);
        if kept {
            self.counters.stored += 1;
            let soon = now.monotonic_us + NOTIFY_US;
            self.notify_at_us = Some(self.notify_at_us.unwrap_or(soon));
            let urgent = level <= Level::CRIT;
            let sync_at = now.monotonic_us + if urgent { 0 } else { self.sync_interval_us };
            self.sync_at_us = Some(self.sync_at_us.unwrap_or(sync_at).min(sync_at));
        } else {
            if let Some(progress) = progress {
                ledger.advance(progress);
            }
            if self.storage != Storage::None {
                self.counters.lost += 1;
                self.untold_loss += 1;
            }
        }
        kept
    }

    fn try_append(
        &mut self,
        ledger: &mut Ledger,
        progress: Option<Progress>,
        now: Stamp,
        fields: &[&[u8]],
    ) -> bool {
        let when = EntryTime {
            realtime: now.realtime_us,
            monotonic: now.monotonic_us,
            boot_id: self.boot_id,
        };
        if self.rotation_is_due(now) {
            // Where there is no new file afterwards, one is opened below.
            self.problem = self.rotate(now).err().or(self.problem.take());
        }
        // Twice: once more after what stood in the way was put aside.
        for _ in 0..2 {
            if self.active.is_none() && !self.reopen(now) {
                return false;
            }
            let Some(active) = &mut self.active else {
                return false;
            };
            if let Some(progress) = progress {
                ledger.intend(progress, active.writer.seqnums().next);
            }
            muster_fault::hit(faults::INTENDED);
            match active.writer.append(when, fields) {
                Ok(_) => {
                    muster_fault::hit(faults::APPENDED);
                    ledger.settle();
                    return true;
                }
                Err(error) => {
                    ledger.drop_intent();
                    if !self.make_way(&error, now) {
                        return false;
                    }
                }
            }
        }
        false
    }

    fn reopen(&mut self, now: Stamp) -> bool {
        if now.monotonic_us < self.refused_until_us {
            return false;
        }
        let opened = self.open(now).is_ok();
        if !opened {
            self.refused_until_us = now.monotonic_us + RETRY_US;
        }
        opened
    }

    /// Whether another attempt makes sense after this error, with what stood in its way put aside.
    fn make_way(&mut self, error: &AppendError, now: Stamp) -> bool {
        match error {
            AppendError::Full { .. } => self.rotate(now).is_ok(),
            AppendError::Damaged { .. } => {
                let Some(active) = self.active.take() else {
                    return false;
                };
                let folder = self.places.folder(active.medium);
                folder.set_active_aside(now.realtime_us).is_ok()
            }
            AppendError::Io { .. } => {
                if now.monotonic_us < self.refused_until_us {
                    return false;
                }
                self.refused_until_us = now.monotonic_us + RETRY_US;
                self.make_room(now)
            }
            _ => false,
        }
    }

    /// Removes the oldest archive because the disk is full; whether there was one.
    fn make_room(&mut self, now: Stamp) -> bool {
        let Ok((archived, active_bytes)) = self.files() else {
            return false;
        };
        let used = archived.iter().map(|file| file.bytes).sum::<u64>() + active_bytes;
        let one_less = Retention {
            max_bytes: used.saturating_sub(1),
            max_files: u64::MAX,
            oldest_us: 0,
        };
        self.space = (0, now.monotonic_us);
        self.remove_all(plan_vacuum(&archived, active_bytes, &one_less)) > 0
    }

    fn rotation_is_due(&self, now: Stamp) -> bool {
        let Some(active) = &self.active else {
            return false;
        };
        let is_old = || {
            let first = active.writer.realtime_range().map(|(first, _)| first);
            self.max_file_us > 0
                && first
                    .is_some_and(|first| now.realtime_us.saturating_sub(first) >= self.max_file_us)
        };
        active.writer.rotation_due().is_some() || is_old()
    }

    /// Ends the active file and begins a new one; then what is beyond the limits goes.
    ///
    /// # Errors
    /// If the file cannot be ended or a new one not be made. Then the store tries again by itself.
    pub fn rotate(&mut self, now: Stamp) -> Result<(), StoreError> {
        let Some(active) = self.active.take() else {
            return self.open(now);
        };
        let Active { writer, medium, .. } = active;
        let seqnums = self.end(writer, medium)?;
        muster_fault::hit(faults::ROTATED);
        let disk = self
            .places
            .folder(medium)
            .file_system()
            .map_err(StoreError::Folder)?;
        let config = match medium {
            Medium::Disk => &self.system,
            Medium::Memory => &self.runtime,
        };
        let limits = config.limits(disk);
        let options = self.options(&limits);
        let writer = self.create(medium, &options, Some(seqnums))?;
        self.active = Some(Active {
            writer,
            medium,
            limits,
        });
        self.space = (disk.free, now.monotonic_us);
        self.vacuum(now, None).map(drop)
    }

    /// Archives a file; one without entries goes.
    fn end(&mut self, writer: JournalWriter, medium: Medium) -> Result<SeqnumSource, StoreError> {
        let folder = self.places.folder(medium);
        if writer.n_entries() == 0 {
            let seqnums = writer.seqnums();
            folder.remove_active().map_err(StoreError::Folder)?;
            return Ok(seqnums);
        }
        let head = writer.archive().map_err(StoreError::Close)?;
        muster_fault::hit(faults::ARCHIVED);
        folder.archive_active(&head).map_err(StoreError::Folder)?;
        self.counters.rotations += 1;
        Ok(head.seqnums)
    }

    /// Removes archives beyond the limits, or beyond those that are asked for. Says how many.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn vacuum(&mut self, now: Stamp, asked: Option<Retention>) -> Result<u64, StoreError> {
        let Some(active) = &self.active else {
            return Ok(0);
        };
        let limits = active.limits;
        let (archived, active_bytes) = self.files()?;
        let used = archived.iter().map(|file| file.bytes).sum::<u64>() + active_bytes;
        let retention = asked.unwrap_or(Retention {
            max_bytes: limits.allowed(used, self.free_bytes(now)),
            max_files: limits.max_files,
            oldest_us: match self.max_retention_us {
                0 => 0,
                span => now.realtime_us.saturating_sub(span),
            },
        });
        Ok(self.remove_all(plan_vacuum(&archived, active_bytes, &retention)))
    }

    fn remove_all(&mut self, names: Vec<Box<str>>) -> u64 {
        let Some(active) = &self.active else { return 0 };
        let folder = self.places.folder(active.medium);
        // One that cannot be removed is tried again with the next vacuum.
        let removed = names
            .iter()
            .filter(|name| folder.remove(name).is_ok())
            .count() as u64;
        self.counters.removed_files += removed;
        removed
    }

    /// The archived files of the active folder, and what the active file takes.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn files(&self) -> Result<(Vec<ArchivedFile>, u64), StoreError> {
        let Some(active) = &self.active else {
            return Ok((Vec::new(), 0));
        };
        let folder = self.places.folder(active.medium);
        let archived = folder.archived().map_err(StoreError::Folder)?;
        Ok((archived, active.writer.disk_usage()))
    }

    /// Moves what is kept in memory to the disk, and goes on there. Says whether the disk is used now.
    ///
    /// # Errors
    /// If the disk cannot be used; then memory is used further.
    pub fn flush(&mut self, now: Stamp) -> Result<bool, StoreError> {
        self.wait_for_flush = false;
        if self.medium() == Some(Medium::Disk) || !self.may_use_disk() {
            return Ok(self.medium() == Some(Medium::Disk));
        }
        // Before the file in memory is ended, it must be clear that there is another place.
        self.places
            .folder(Medium::Disk)
            .make()
            .map_err(StoreError::Folder)?;
        if let Some(active) = self.active.take() {
            self.end(active.writer, active.medium)?;
        }
        muster_fault::hit(faults::FLUSHING);
        let opened = self.open_in(Medium::Disk, now);
        if opened.is_err() {
            self.open(now)?;
        }
        opened.map(|()| true)
    }

    /// Moves archived files from memory to the disk, with the active one that an earlier process has left.
    fn move_from_memory(&self, now: Stamp) -> Result<(), FolderError> {
        let memory = self.places.folder(Medium::Memory);
        let disk = self.places.folder(Medium::Disk);
        disk.remove_half_copies()?;
        let options = WriterOptions::new(self.machine_id, self.boot_id);
        match JournalWriter::open(&memory.active(), &options) {
            Ok(writer) if writer.n_entries() > 0 => {
                // A file that cannot be put on the disk of memory is moved as it is.
                match writer.archive() {
                    Ok(head) => memory.archive_active(&head).map(drop)?,
                    Err(_) => memory.set_active_aside(now.realtime_us).map(drop)?,
                }
            }
            Ok(_) => memory.remove_active()?,
            Err(OpenWriterError::NotContinuable { reason, .. }) => {
                memory.clear_active(reason, now.realtime_us)?;
            }
            // There is none.
            Err(_) => {}
        }
        for file in memory.archived()? {
            memory.move_to(&file.name, disk)?;
        }
        Ok(())
    }

    /// Puts everything on disk.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.sync_at_us = None;
        if let Some(active) = &mut self.active {
            active.writer.sync().map_err(StoreError::Close)?;
            self.counters.syncs += 1;
        }
        Ok(())
    }

    /// Does what is due. Says when it wants to be called again, in microseconds since boot.
    pub fn turn(&mut self, now: Stamp) -> Option<u64> {
        if self.notify_at_us.is_some_and(|at| at <= now.monotonic_us) {
            self.notify_at_us = None;
            if let Some(active) = &self.active {
                // Readers that miss it see the entries with the next one.
                let _ = active.writer.notify_readers();
            }
        }
        if self.sync_at_us.is_some_and(|at| at <= now.monotonic_us) {
            self.problem = self.sync().err().or(self.problem.take());
        }
        if self
            .retention_at_us
            .is_some_and(|at| at <= now.monotonic_us)
        {
            self.retention_at_us = Some(now.monotonic_us + RETENTION_US);
            self.problem = self.vacuum(now, None).err().or(self.problem.take());
        }
        let waits = self.medium() == Some(Medium::Memory) && self.may_use_disk();
        if waits && self.flush_at_us <= now.monotonic_us {
            self.flush_at_us = now.monotonic_us + FLUSH_RETRY_US;
            // No disk yet: nobody asked for it now, so there is nothing to report.
            let _ = self.flush(now);
        }
        let flush_at = (waits && self.medium() == Some(Medium::Memory)).then_some(self.flush_at_us);
        [
            self.notify_at_us,
            self.sync_at_us,
            flush_at,
            self.retention_at_us,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// What went wrong where nobody was there to be told, once.
    pub fn take_problem(&mut self) -> Option<StoreError> {
        self.problem.take()
    }

    /// How many entries were lost that have not been told of; only asked once entries are kept again.
    pub fn take_untold_loss(&mut self, now: Stamp) -> Option<u64> {
        let is_over = self.active.is_some() && now.monotonic_us >= self.refused_until_us;
        (is_over && self.untold_loss > 0).then(|| std::mem::take(&mut self.untold_loss))
    }

    /// Whether entries were lost that nobody has been told of.
    #[must_use]
    pub fn has_untold_loss(&self) -> bool {
        self.untold_loss > 0
    }

    /// The free space of the active file system, looked at now and then.
    pub fn free_bytes(&mut self, now: Stamp) -> u64 {
        if now.monotonic_us.saturating_sub(self.space.1) >= SPACE_US
            && let Some(active) = &self.active
            && let Ok(disk) = self.places.folder(active.medium).file_system()
        {
            self.space = (disk.free, now.monotonic_us);
        }
        self.space.0
    }

    /// Where entries go now.
    #[must_use]
    pub fn medium(&self) -> Option<Medium> {
        self.active.as_ref().map(|active| active.medium)
    }

    /// The folder that is written to.
    #[must_use]
    pub fn folder(&self) -> Option<&Folder> {
        self.medium().map(|medium| self.places.folder(medium))
    }

    /// What has been done so far.
    #[must_use]
    pub fn counters(&self) -> StoreCounters {
        self.counters
    }
}

fn is_out_of_space(error: &OpenWriterError) -> bool {
    matches!(error, OpenWriterError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

#[cfg(test)]
mod tests;
