//! Noticing what is appended.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::files::{journal_dirs, journal_paths};
use super::{Journal, Member, OpenDirError, Position};
use crate::file::{JournalFile, ReadError, skip_damage};
use crate::format::FileState;

/// What happened to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// Entries may have been appended.
    Appended,
    /// Files came or went; entries may have been appended, too.
    Files,
}

/// Why a journal cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel refused.
    #[error("cannot {operation} to follow the journal")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The directory could not be listed.
    #[error(transparent)]
    List(#[from] OpenDirError),
    /// What was appended could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The kernel's notifications about the directories.
#[derive(Debug)]
pub(super) struct Watch {
    fd: OwnedFd,
    watched: BTreeSet<PathBuf>,
}

impl Watch {
    fn new() -> rustix::io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            watched: BTreeSet::new(),
        })
    }

    fn add(&mut self, dir: PathBuf) -> rustix::io::Result<()> {
        if self.watched.contains(&dir) {
            return Ok(());
        }
        let events = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&self.fd, &dir, events)?;
        self.watched.insert(dir);
        Ok(())
    }

    /// Takes everything that was reported so far.
    fn drain(&self) -> rustix::io::Result<Change> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut buffer);
        let mut change = Change::Nothing;
        loop {
            match reader.next() {
                // A full queue has lost events, so anything may have happened.
                Ok(event) if event.events() == inotify::ReadFlags::MODIFY => {
                    change = change.max(Change::Appended);
                }
                Ok(_) => change = Change::Files,
                Err(rustix::io::Errno::AGAIN) => return Ok(change),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Journal {
    /// Starts to follow the directories. Whatever is appended from here on makes
    /// [`watch_fd`](Self::watch_fd) readable.
    ///
    /// # Errors
    /// When the kernel refuses to watch.
    pub fn watch(&mut self) -> Result<(), WatchError> {
        let failed = |source: rustix::io::Errno| WatchError::Io {
            operation: "watch its directory",
            source: source.into(),
        };
        let mut watch = match self.watch.take() {
            Some(watch) => watch,
            None => Watch::new().map_err(failed)?,
        };
        for dir in &self.dirs {
            for dir in journal_dirs(dir)? {
                watch.add(dir).map_err(failed)?;
            }
        }
        self.watch = Some(watch);
        Ok(())
    }

    /// Becomes readable when the journal changes; for an event loop, which then calls
    /// [`process_changes`](Self::process_changes). None before [`watch`](Self::watch).
    #[must_use]
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.fd.as_fd())
    }

    /// Takes note of what happened since the last call.
    ///
    /// # Errors
    /// When the directories or the files' headers cannot be read.
    pub fn process_changes(&mut self) -> Result<Change, WatchError> {
        let change = match &self.watch {
            Some(watch) => watch.drain().map_err(|source| WatchError::Io {
                operation: "read notifications",
                source: source.into(),
            })?,
            None => Change::Nothing,
        };
        match change {
            Change::Nothing => {}
            Change::Appended => self.refresh_members()?,
            Change::Files => {
                self.refresh()?;
                self.watch()?;
            }
        }
        Ok(change)
    }

    /// Waits until the journal changes, at most for `timeout`. Starts to follow it if nobody did yet;
    /// what was appended before that is noticed too.
    ///
    /// # Errors
    /// When the kernel refuses to watch, or the journal cannot be read.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Change, WatchError> {
        if self.watch.is_none() {
            self.watch()?;
            self.refresh()?;
            return Ok(Change::Files);
        }
        if let Some(fd) = self.watch_fd() {
            let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
            match poll(
                &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
                timeout.as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(source) => {
                    return Err(WatchError::Io {
                        operation: "wait",
                        source: source.into(),
                    });
                }
            }
        }
        self.process_changes()
    }

    /// Takes note of new, deleted and longer files.
    ///
    /// # Errors
    /// When the directories or the files' headers cannot be read.
    pub fn refresh(&mut self) -> Result<(), WatchError> {
        if !self.dirs.is_empty() {
            self.scan()?;
        }
        self.refresh_members()?;
        Ok(())
    }

    fn refresh_members(&mut self) -> Result<(), ReadError> {
        for member in &mut self.members {
            if member.file.summary().state == FileState::Archived {
                continue;
            }
            let file = &member.file;
            let fail = |fault| file.fail(fault);
            // A file that is damaged meanwhile stays as it was last read.
            if skip_damage(file.refresh()).map_err(fail)?.is_some() {
                skip_damage(member.wanted.refresh(file)).map_err(fail)?;
            }
            if matches!(member.candidate, Some((_, None))) {
                member.candidate = None;
            }
        }
        Ok(())
    }

    /// Opens files that came, forgets those that went.
    pub(super) fn scan(&mut self) -> Result<(), OpenDirError> {
        let mut present = BTreeSet::new();
        self.skipped.clear();
        for dir in self.dirs.clone() {
            for path in journal_paths(&dir)? {
                use std::os::unix::fs::MetadataExt;
                let Ok(metadata) = std::fs::metadata(&path) else {
                    continue;
                };
                let inode = (metadata.dev(), metadata.ino());
                if !present.insert(inode)
                    || self
                        .members
                        .iter()
                        .any(|member| member.file.inode() == inode)
                {
                    continue;
                }
                match JournalFile::open(&path) {
                    Ok(file) => {
                        self.members
                            .push(Member::new(file, &self.matches, Position::gap(0)));
                    }
                    Err(error) => {
                        self.skipped.insert(path, error);
                    }
                }
            }
        }
        self.members
            .retain(|member| present.contains(&member.file.inode()));
        self.sort_members();
        Ok(())
    }
}
