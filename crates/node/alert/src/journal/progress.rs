//! How far the journal was read, and what of it is missing. Pure.
//!
//! The journal may have several sources that number their entries, each by itself: journald's and the log daemon's, those
//! in memory and those on disk. The place is therefore one number for each source, and means that everything up to it was
//! read. Files of one source are not looked at in one moment, so numbers beyond those known *before* the last look
//! ([`Progress::begin`]) are read but do not count yet; entries of that kind, and copies of entries that journald makes
//! from memory to disk under new numbers, are known again by the last [`RECENT_MAX`] entries that became alerts.

use std::collections::{BTreeMap, VecDeque};

use muster_journal::{Cursor, FileSummary, Id128};

use crate::database::{JournalChange, Place};

/// Entries that became alerts and are remembered.
pub(crate) const RECENT_MAX: usize = 256;
/// Bytes of one of them when it is written down.
const RECENT_BYTES: usize = 32;

/// An entry that became an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    source: Id128,
    number: u64,
    /// The same for a copy of the entry under another number.
    content: u64,
}

impl Known {
    pub(crate) fn of(cursor: &Cursor) -> Self {
        let boot = cursor.boot_id.unwrap_or_default();
        let half = boot.as_bytes().first_chunk().copied().unwrap_or_default();
        let content = u64::from_le_bytes(half)
            ^ cursor.monotonic.unwrap_or_default().rotate_left(32)
            ^ cursor.xor_hash.unwrap_or_default();
        Self {
            source: cursor.seqnum_id.unwrap_or_default(),
            number: cursor.seqnum.unwrap_or_default(),
            content,
        }
    }

    /// Whether both are the same entry: by number, or as a copy from one source to another.
    fn is(&self, other: &Self) -> bool {
        match self.source == other.source {
            true => self.number == other.number,
            false => self.content == other.content,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.source.as_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.content.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (source, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (content, _) = rest.split_first_chunk()?;
        Some(Self {
            source: Id128::from_bytes(*source),
            number: u64::from_le_bytes(*number),
            content: u64::from_le_bytes(*content),
        })
    }
}

/// A file of the journal, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFacts {
    pub(crate) summary: FileSummary,
    /// It outlives a reboot.
    pub(crate) lasting: bool,
}

/// Entries that are gone, and were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// These numbers.
    Numbers { first: u64, last: u64 },
    /// All files of a source, with everything after this number.
    Source { after: u64 },
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers { first, last } => write!(
                f,
                "{} entries of the journal (numbers {first} to {last}) were removed before they were looked at; \
                 going on with the oldest that is left",
                last - first + 1
            ),
            Self::Source { after } => write!(
                f,
                "a journal was removed; what it held after entry number {after} was not looked at"
            ),
        }
    }
}

/// How far the journal was read.
#[derive(Debug)]
pub(crate) struct Progress {
    places: BTreeMap<Id128, Place>,
    /// Numbers that are surely known in all files.
    sure: BTreeMap<Id128, u64>,
    recent: VecDeque<Known>,
    changed: BTreeMap<Id128, Option<Place>>,
}

impl Progress {
    /// Goes on where it was written down.
    pub(crate) fn new(places: BTreeMap<Id128, Place>, recent: &[u8]) -> Self {
        let recent = recent.chunks_exact(RECENT_BYTES).filter_map(Known::read);
        Self {
            places,
            sure: BTreeMap::new(),
            recent: recent.take(RECENT_MAX).collect(),
            changed: BTreeMap::new(),
        }
    }

    /// Behind which number to read on in each source.
    pub(crate) fn numbers(&self) -> BTreeMap<Id128, u64> {
        let number = |(source, place): (&Id128, &Place)| (*source, place.number);
        self.places.iter().map(number).collect()
    }

    /// What is there is not of interest; only what comes.
    pub(crate) fn skip_to(&mut self, last: &BTreeMap<Id128, u64>, files: &[FileFacts]) {
        for (source, number) in last {
            self.advance(*source, *number, files);
        }
    }

    /// A look begins; up to these numbers everything is there.
    pub(crate) fn begin(&mut self, sure: BTreeMap<Id128, u64>) {
        self.sure = sure;
    }

    /// Whether an entry was read before.
    pub(crate) fn is_known(&self, entry: &Known) -> bool {
        let place = self.places.get(&entry.source);
        place.is_some_and(|place| entry.number <= place.number)
            || self.recent.iter().any(|known| known.is(entry))
    }

    /// An entry was read, and those of its source before it.
    pub(crate) fn read(&mut self, entry: Known, became_alert: bool, files: &[FileFacts]) {
        let sure = self.sure.get(&entry.source).copied().unwrap_or(0);
        self.advance(entry.source, entry.number.min(sure), files);
        if became_alert {
            if self.recent.len() >= RECENT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(entry);
        }
    }

    /// The look is over: everything that is surely there was read.
    pub(crate) fn end(&mut self, files: &[FileFacts]) {
        for (source, number) in std::mem::take(&mut self.sure) {
            self.advance(source, number, files);
        }
    }

    /// What is gone unread.
    pub(crate) fn missing(&self, files: &[FileFacts]) -> BTreeMap<Id128, Missing> {
        let mut oldest: BTreeMap<Id128, u64> = BTreeMap::new();
        for file in files.iter().filter(|file| file.summary.n_entries > 0) {
            let first = oldest
                .entry(file.summary.seqnum_id)
                .or_insert(file.summary.seqnums.0);
            *first = file.summary.seqnums.0.min(*first);
        }
        let of_source = |(source, place): (&Id128, &Place)| {
            let after = place.number;
            let missing = match oldest.get(source) {
                Some(first) if *first > after.saturating_add(1) => Missing::Numbers {
                    first: after + 1,
                    last: first - 1,
                },
                Some(_) => return None,
                None => Missing::Source { after },
            };
            Some((*source, missing))
        };
        self.places.iter().filter_map(of_source).collect()
    }

    /// Waits no longer for what is gone; gives what has to be told of it.
    pub(crate) fn give_up(
        &mut self,
        missing: BTreeMap<Id128, Missing>,
        files: &[FileFacts],
    ) -> Vec<Missing> {
        let mut told = Vec::new();
        for (source, missing) in missing {
            match missing {
                Missing::Numbers { last, .. } => {
                    self.advance(source, last, files);
                    told.push(missing);
                }
                Missing::Source { .. } => {
                    let place = self.places.remove(&source);
                    self.changed.insert(source, None);
                    // A journal in memory goes with each boot, and when it is moved to the disk.
                    if place.is_some_and(|place| place.lasting) {
                        told.push(missing);
                    }
                }
            }
        }
        told
    }

    /// What has to be written down, if anything.
    pub(crate) fn take_change(&mut self) -> Option<JournalChange> {
        if self.changed.is_empty() {
            return None;
        }
        Some(self.change())
    }

    /// What has to be written down, also if only to say that the journal was looked at.
    pub(crate) fn change(&mut self) -> JournalChange {
        let mut recent = Vec::with_capacity(self.recent.len() * RECENT_BYTES);
        self.recent
            .iter()
            .for_each(|known| known.write(&mut recent));
        JournalChange {
            places: std::mem::take(&mut self.changed),
            recent,
        }
    }

    fn advance(&mut self, source: Id128, number: u64, files: &[FileFacts]) {
        let known = self.places.get(&source).copied();
        if known.is_some_and(|place| place.number >= number) {
            return;
        }
        let of_source = |file: &&FileFacts| file.summary.seqnum_id == source;
        let lasting = files.iter().filter(of_source).any(|file| file.lasting);
        let place = Place { number, lasting };
        self.places.insert(source, place);
        self.changed.insert(source, Some(place));
    }
}

#[cfg(test)]
mod tests;
