//! Reading all files of a directory as one stream.

mod files;
mod follow;
mod seek;
mod values;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::files::{FileKind, JournalFileInfo, disk_usage, list_files};
pub use self::follow::{Change, WatchError};
pub use self::values::Boot;
use crate::entry::{Entry, order};
use crate::file::{
    Direction, EntryObject, Fault, FileSummary, JournalFile, OpenFileError, ReadError, skip_damage,
};
use crate::format::Id128;
use crate::matches::{Matches, Node};

/// Why a directory could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read journal directory {path}")]
pub struct OpenDirError {
    /// The directory.
    pub path: PathBuf,
    /// The kernel's answer.
    #[source]
    pub source: std::io::Error,
}

/// Where a reader stands in one file: between two places. Entries at or after `forward` come next,
/// those before `backward` came last; an entry that lies between them is the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    backward: u64,
    forward: u64,
}

impl Position {
    fn gap(place: u64) -> Self {
        Self {
            backward: place,
            forward: place,
        }
    }

    fn on(offset: u64) -> Self {
        Self {
            backward: offset,
            forward: offset.saturating_add(1),
        }
    }
}

/// A file of the journal with the reader's place in it.
#[derive(Debug)]
struct Member {
    file: Arc<JournalFile>,
    wanted: Node,
    position: Position,
    /// The next entry in a direction, if it was looked for.
    candidate: Option<(Direction, Option<EntryObject>)>,
}

impl Member {
    fn new(file: JournalFile, matches: &Matches, position: Position) -> Self {
        Self {
            file: Arc::new(file),
            wanted: matches.compile(),
            position,
            candidate: None,
        }
    }

    fn move_to(&mut self, position: Position) {
        self.position = position;
        self.candidate = None;
    }

    /// Whether the header alone shows that nothing in this file can come before `best`, seen in the
    /// direction of reading. Spares the search of all files but one or two.
    fn is_beyond(&self, (source, best): (Id128, &EntryObject), direction: Direction) -> bool {
        if source != self.file.seqnum_id() {
            return false;
        }
        let (first, last) = self.file.summary().seqnums;
        match direction {
            Direction::Forward => first > best.seqnum,
            Direction::Backward => last < best.seqnum,
        }
    }

    /// The next wanted entry of this file.
    fn candidate(&mut self, direction: Direction) -> Result<Option<EntryObject>, Fault> {
        if let Some((known, candidate)) = self.candidate
            && known == direction
        {
            return Ok(candidate);
        }
        let found = self.search(direction)?;
        self.candidate = Some((direction, found));
        Ok(found)
    }

    fn search(&mut self, direction: Direction) -> Result<Option<EntryObject>, Fault> {
        let mut place = match direction {
            Direction::Forward => self.position.forward,
            Direction::Backward => match self.position.backward.checked_sub(1) {
                Some(place) => place,
                None => return Ok(None),
            },
        };
        while let Some(offset) = self.wanted.nearest(&self.file, place, direction)? {
            if let Some(entry) = skip_damage(self.file.entry_object(offset))? {
                return Ok(Some(entry));
            }
            // A damaged entry: what lies behind it may be fine.
            let next = match direction {
                Direction::Forward => offset.checked_add(1),
                Direction::Backward => offset.checked_sub(1),
            };
            let Some(next) = next else { break };
            place = next;
        }
        Ok(None)
    }
}

/// The files of a directory, read as one stream of entries in journald's order.
///
/// A new journal stands before its first entry. Entries that are in two files are given once. The
/// journal is as it was when it was opened until [`refresh`](Self::refresh) or
/// [`wait`](Self::wait) is called.
#[derive(Debug)]
pub struct Journal {
    /// Where files are looked for; empty when they were named one by one.
    dirs: Vec<PathBuf>,
    members: Vec<Member>,
    matches: Matches,
    /// Files that could not be opened, with the reason.
    skipped: BTreeMap<PathBuf, OpenFileError>,
    watch: Option<follow::Watch>,
}

impl Journal {
    /// Opens all files of a directory, and of its subdirectories that are named after a machine.
    /// Files that cannot be opened are left out and listed by [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn open_dir(dir: &Path) -> Result<Self, OpenDirError> {
        Self::open_dirs(&[dir])
    }

    /// As [`open_dir`](Self::open_dir), for several directories; those that do not exist are left out.
    ///
    /// # Errors
    /// When one of the directories exists and cannot be listed, or none exists.
    pub fn open_dirs(dirs: &[&Path]) -> Result<Self, OpenDirError> {
        let mut journal = Self::empty();
        let mut missing = None;
        for dir in dirs {
            match files::journal_paths(dir) {
                Ok(_) => journal.dirs.push((*dir).to_owned()),
                Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                    missing = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if journal.dirs.is_empty()
            && let Some(error) = missing
        {
            return Err(error);
        }
        journal.scan()?;
        Ok(journal)
    }

    /// Opens the given files only.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub fn open_files(paths: &[&Path]) -> Result<Self, OpenFileError> {
        let mut journal = Self::empty();
        for path in paths {
            let file = JournalFile::open(path)?;
            journal
                .members
                .push(Member::new(file, &journal.matches, Position::gap(0)));
        }
        journal.sort_members();
        Ok(journal)
    }

    fn empty() -> Self {
        Self {
            dirs: Vec::new(),
            members: Vec::new(),
            matches: Matches::new(),
            skipped: BTreeMap::new(),
            watch: None,
        }
    }

    fn sort_members(&mut self) {
        self.members.sort_by_cached_key(|member| {
            let summary = member.file.summary();
            (
                summary.seqnums,
                summary.realtime,
                member.file.path().to_owned(),
            )
        });
    }

    /// Files that are not part of the journal because they could not be opened.
    pub fn skipped(&self) -> impl Iterator<Item = (&Path, &OpenFileError)> {
        self.skipped
            .iter()
            .map(|(path, error)| (path.as_path(), error))
    }

    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &JournalFile> {
        self.members.iter().map(|member| member.file.as_ref())
    }

    /// Reads only the files whose headers are wanted, from now until a [`refresh`](Self::refresh) finds the others again.
    pub fn retain_files(&mut self, mut wanted: impl FnMut(&FileSummary) -> bool) {
        self.members.retain(|member| wanted(&member.file.summary()));
    }

    /// Gives the memory back that keeps parts of files at hand. A long read through many files calls this now and then.
    pub fn release_memory(&mut self) {
        for member in &self.members {
            member.file.release_memory();
        }
    }

    /// Sets which entries are wanted; the place stays.
    pub fn set_matches(&mut self, matches: Matches) {
        for member in &mut self.members {
            member.wanted = matches.compile();
            member.candidate = None;
        }
        self.matches = matches;
    }

    /// Moves to the next wanted entry and gives it; none at the end, where the place stays.
    ///
    /// # Errors
    /// When the disk refuses. Damage is stepped over.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous wanted entry and gives it; none at the start, where the place stays.
    ///
    /// # Errors
    /// When the disk refuses. Damage is stepped over.
    pub fn previous_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        self.step(Direction::Backward)
    }

    fn step(&mut self, direction: Direction) -> Result<Option<Entry>, ReadError> {
        let mut best: Option<(usize, EntryObject)> = None;
        for turn in 0..self.members.len() {
            // Members stand in the order of their entries, so the best one mostly comes first.
            let index = match direction {
                Direction::Forward => turn,
                Direction::Backward => self.members.len() - 1 - turn,
            };
            if let Some((other, best)) = &best {
                let best = (self.members[*other].file.seqnum_id(), best);
                if self.members[index].is_beyond(best, direction) {
                    continue;
                }
            }
            let member = &mut self.members[index];
            let candidate = member
                .candidate(direction)
                .map_err(|fault| member.file.fail(fault))?;
            let Some(entry) = candidate else { continue };
            let better = best.is_none_or(|(other, best)| {
                let order = self.order((index, &entry), (other, &best));
                match direction {
                    Direction::Forward => order.is_lt(),
                    Direction::Backward => order.is_gt(),
                }
            });
            if better {
                best = Some((index, entry));
            }
        }
        let Some((chosen, entry)) = best else {
            return Ok(None);
        };
        for index in 0..self.members.len() {
            let twin = match self.members[index].candidate {
                Some((of, Some(other))) if index != chosen && of == direction => {
                    self.order((index, &other), (chosen, &entry)).is_eq()
                }
                _ => false,
            };
            let member = &mut self.members[index];
            if index == chosen {
                member.move_to(Position::on(entry.offset));
            } else if twin && let Some((_, Some(other))) = member.candidate {
                // The same entry in another file counts as given.
                member.move_to(Position::on(other.offset));
            } else {
                // What this file gave last lies behind now.
                member.position = Position::gap(match direction {
                    Direction::Forward => member.position.forward,
                    Direction::Backward => member.position.backward,
                });
            }
        }
        Ok(Some(Entry::new(
            Arc::clone(&self.members[chosen].file),
            entry,
        )))
    }

    fn order(&self, a: (usize, &EntryObject), b: (usize, &EntryObject)) -> Ordering {
        let source = |index: usize| self.members[index].file.seqnum_id();
        order((source(a.0), a.1), (source(b.0), b.1))
    }
}
