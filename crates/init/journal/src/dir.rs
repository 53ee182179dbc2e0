//! Writing into a directory: one active file, archived ones beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use muster_fault::hit;

use crate::format::Id128;
use crate::journal::{FileKind, OpenDirError, list_files};
use crate::writer::{
    AppendError, Appended, CloseError, EntryTime, JournalWriter, NotContinuable, OpenWriterError,
    SeqnumSource, WriterOptions,
};

muster_fault::points! {
    /// The archived file has its new name, its successor does not exist.
    pub RENAMED = "journal.renamed",
    /// The successor exists.
    pub SUCCEEDED = "journal.succeeded",
}

/// Why a directory could not be written to.
#[derive(Debug, thiserror::Error)]
pub enum DirWriterError {
    /// The directory could not be made, listed or synchronised.
    #[error("cannot {operation} journal directory {path}")]
    Dir {
        /// What was attempted.
        operation: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file could not be given its new name.
    #[error("cannot rename journal file {from} to {to}")]
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The active file could not be made or taken.
    #[error(transparent)]
    Open(OpenWriterError),
    /// The active file could not be synchronised or archived.
    #[error(transparent)]
    Close(CloseError),
    /// The entry was refused.
    #[error(transparent)]
    Append(AppendError),
}

/// What became of the file that was there when a directory was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// There was none; a new one was made.
    Created,
    /// It is continued.
    Continued,
    /// It was left to readers under a new name.
    SetAside {
        /// The new name.
        path: PathBuf,
        /// Why.
        reason: NotContinuable,
    },
}

/// The writer of a directory: appends to `NAME.journal`, archives it when it is full, and never
/// writes to anything that another boot or program left unfinished.
#[derive(Debug)]
pub struct DirWriter {
    dir: PathBuf,
    name: String,
    options: WriterOptions,
    seqnums: SeqnumSource,
    /// None when the last file was archived and no new one could be made yet.
    writer: Option<JournalWriter>,
    archived: u64,
}

impl DirWriter {
    /// Opens `NAME.journal` in `dir`, which is made if need be.
    ///
    /// # Errors
    /// [`DirWriterError`].
    pub fn open(
        dir: &Path,
        name: &str,
        options: WriterOptions,
    ) -> Result<(Self, Opened), DirWriterError> {
        let dir_failed = |operation| {
            move |source| DirWriterError::Dir {
                operation,
                path: dir.to_owned(),
                source,
            }
        };
        fs::create_dir_all(dir).map_err(dir_failed("make"))?;
        let seqnums = match last_seqnum(dir, options.machine_id)
            .map_err(|OpenDirError { source, .. }| dir_failed("list")(source))?
        {
            Some(seqnums) => seqnums,
            None => new_source().map_err(dir_failed("make an id for"))?,
        };
        let dir = dir.to_owned();
        let name = name.to_owned();
        let mut this = Self {
            dir,
            name,
            options,
            seqnums,
            writer: None,
            archived: 0,
        };
        let opened = this.take_active()?;
        this.active()?;
        Ok((this, opened))
    }

    /// Takes the active file if there is one that can be continued.
    fn take_active(&mut self) -> Result<Opened, DirWriterError> {
        let path = self.active_path();
        match JournalWriter::open(&path, &self.options) {
            Ok(writer) => {
                self.seqnums = writer.seqnums();
                self.writer = Some(writer);
                Ok(Opened::Continued)
            }
            Err(OpenWriterError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Opened::Created)
            }
            Err(OpenWriterError::NotContinuable { reason, .. }) => {
                let aside = self.set_aside()?;
                if reason != NotContinuable::Archived {
                    // Numbers that were given before the machine went down may not be in the file:
                    // a new source makes sure that none names two entries.
                    self.seqnums =
                        new_source().map_err(|source| self.dir_error("make an id for", source))?;
                }
                Ok(Opened::SetAside {
                    path: aside,
                    reason,
                })
            }
            Err(error) => Err(DirWriterError::Open(error)),
        }
    }

    /// Appends an entry; rotates first if the active file is full, aged in its tables, or damaged.
    ///
    /// # Errors
    /// [`DirWriterError::Append`] when the entry itself is refused or the disk is full; the others
    /// when a new file could not be made. Nothing that was appended before is lost by either.
    pub fn append<F: AsRef<[u8]>>(
        &mut self,
        when: EntryTime,
        fields: &[F],
    ) -> Result<Appended, DirWriterError> {
        if self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.rotation_due().is_some())
        {
            self.rotate()?;
        }
        let writer = self.active()?;
        let appended = match writer.append(when, fields) {
            Err(AppendError::Full { .. }) if writer.n_entries() > 0 => {
                self.rotate()?;
                self.active()?.append(when, fields)
            }
            Err(AppendError::Damaged { .. }) => {
                self.writer = None;
                self.set_aside()?;
                self.active()?.append(when, fields)
            }
            result => result,
        };
        let appended = appended.map_err(DirWriterError::Append)?;
        self.seqnums.next = appended.seqnum + 1;
        Ok(appended)
    }

    /// Archives the active file, unless it is empty, and starts a new one.
    ///
    /// # Errors
    /// [`DirWriterError`]; the next append tries again to make a file.
    pub fn rotate(&mut self) -> Result<Option<PathBuf>, DirWriterError> {
        let Some(writer) = self.writer.take_if(|writer| writer.n_entries() > 0) else {
            return Ok(None);
        };
        let archived = writer.archive().map_err(DirWriterError::Close)?;
        self.seqnums = archived.seqnums;
        let to = self.dir.join(format!(
            "{}@{}-{:016x}-{:016x}.journal",
            self.name, archived.seqnum_id, archived.head_seqnum, archived.head_realtime
        ));
        self.rename_active(&to)?;
        self.archived += 1;
        hit(RENAMED);
        self.active()?;
        hit(SUCCEEDED);
        Ok(Some(to))
    }

    /// Puts everything on disk.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync(&mut self) -> Result<(), DirWriterError> {
        match &mut self.writer {
            Some(writer) => writer.sync().map_err(DirWriterError::Close),
            None => Ok(()),
        }
    }

    /// Wakes readers that follow the journal. To be called after one or more appends.
    ///
    /// # Errors
    /// The kernel's.
    pub fn notify_readers(&self) -> Result<(), DirWriterError> {
        match &self.writer {
            Some(writer) => writer.notify_readers().map_err(DirWriterError::Close),
            None => Ok(()),
        }
    }

    /// Puts everything on disk and gives the active file up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn close(mut self) -> Result<(), DirWriterError> {
        self.sync()
    }

    /// How many files were archived or set aside by this writer; when it grows, there may be something
    /// to vacuum.
    #[must_use]
    pub fn archived(&self) -> u64 {
        self.archived
    }

    /// The wall clock times of the first and the last entry of the active file.
    #[must_use]
    pub fn realtime_range(&self) -> Option<(u64, u64)> {
        self.writer.as_ref().and_then(JournalWriter::realtime_range)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The active file.
    #[must_use]
    pub fn active_path(&self) -> PathBuf {
        self.dir.join(format!("{}.journal", self.name))
    }

    /// The writer of the active file, which is made if there is none.
    fn active(&mut self) -> Result<&mut JournalWriter, DirWriterError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let writer =
                    JournalWriter::create(&self.active_path(), &self.options, self.seqnums)
                        .map_err(DirWriterError::Open)?;
                self.sync_dir()?;
                writer
            }
        };
        Ok(self.writer.insert(writer))
    }

    /// Gives the active file a name under which nobody writes to it.
    fn set_aside(&mut self) -> Result<PathBuf, DirWriterError> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let unique = Id128::random().map_err(|source| self.dir_error("make an id for", source))?;
        let to = self.dir.join(format!(
            "{}@{:016x}-{:016x}.journal~",
            self.name,
            now.as_micros(),
            unique.hash_key().0
        ));
        self.rename_active(&to)?;
        self.archived += 1;
        Ok(to)
    }

    fn rename_active(&self, to: &Path) -> Result<(), DirWriterError> {
        let from = self.active_path();
        fs::rename(&from, to).map_err(|source| DirWriterError::Rename {
            from,
            to: to.to_owned(),
            source,
        })?;
        self.sync_dir()
    }

    fn sync_dir(&self) -> Result<(), DirWriterError> {
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|source| self.dir_error("put on disk", source))
    }

    fn dir_error(&self, operation: &'static str, source: io::Error) -> DirWriterError {
        DirWriterError::Dir {
            operation,
            path: self.dir.clone(),
            source,
        }
    }
}

fn new_source() -> io::Result<SeqnumSource> {
    Ok(SeqnumSource {
        id: Id128::random()?,
        next: 1,
    })
}

/// Where the numbers of the newest archived file end.
fn last_seqnum(dir: &Path, machine_id: Id128) -> Result<Option<SeqnumSource>, OpenDirError> {
    let files = list_files(dir)?;
    Ok(files
        .iter()
        .rev()
        .filter(|file| file.kind == FileKind::Archived)
        .filter_map(|file| file.summary)
        .find(|summary| summary.machine_id == machine_id && summary.n_entries > 0)
        .map(|summary| SeqnumSource {
            id: summary.seqnum_id,
            next: summary.seqnums.1.saturating_add(1),
        }))
}
