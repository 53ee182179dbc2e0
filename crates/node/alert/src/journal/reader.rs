//! The one who reads: opens, looks, opens again. Blocks, so it works on a thread that may.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::Alert;
use muster_journal::{Change, Journal, OpenDirError, ReadError, WatchError};
use muster_telemetry::ErrorChain;

use super::progress::{FileFacts, Known, Progress};
use super::rules::{Record, Rules};
use crate::alerts::now_system;
use crate::database::{JournalChange, JournalPlace};
use crate::instances::InstanceUnits;

/// Alerts of one look, at most.
const ALERTS_MAX: usize = 128;
/// Entries that one look reads, at most.
const ENTRIES_MAX: usize = 4096;
/// So often, and after so long a time, a file is looked for that is gone.
const RENAME_LOOKS: usize = 3;
const RENAME_TIME: Duration = Duration::from_millis(50);
/// Files here do not outlive a reboot.
const IN_MEMORY: &str = "/run";

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) alerts: Vec<Alert>,
    /// The place has to be written down, whatever was found.
    pub(super) must_write: bool,
    /// There is more to read at once.
    pub(super) more: bool,
    /// What tells of changes from now on, if that is another than before.
    pub(super) watch: Option<Option<OwnedFd>>,
}

/// Why the journal cannot be read now.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("cannot open the journal")]
    Open(#[source] OpenDirError),
    #[error("cannot follow the journal")]
    Follow(#[source] WatchError),
    #[error("cannot read the journal")]
    Read(#[source] ReadError),
}

/// An open journal.
#[derive(Debug)]
struct Opened {
    journal: Journal,
    /// What it consisted of when it was opened: folders that are made anew are not followed by themselves.
    folders: Vec<(PathBuf, (u64, u64))>,
    /// Whether the kernel tells of changes.
    is_watched: bool,
}

#[derive(Debug)]
pub(super) struct Reader {
    dirs: Vec<PathBuf>,
    rules: Rules,
    units: Arc<dyn InstanceUnits>,
    progress: Progress,
    /// Somebody has looked at the journal before, now or in an earlier life.
    has_begun: bool,
    opened: Option<Opened>,
    /// The last look failed, and that was said.
    is_failing: bool,
}

impl Reader {
    pub(super) fn new(
        dirs: Vec<PathBuf>,
        rules: Rules,
        units: Arc<dyn InstanceUnits>,
        place: Option<JournalPlace>,
    ) -> Self {
        let has_begun = place.is_some();
        let place = place.unwrap_or_default();
        Self {
            dirs,
            rules,
            units,
            progress: Progress::new(place.places, &place.recent),
            has_begun,
            opened: None,
            is_failing: false,
        }
    }

    pub(super) fn take_change(&mut self) -> Option<JournalChange> {
        self.progress.take_change()
    }

    pub(super) fn change(&mut self) -> JournalChange {
        self.progress.change()
    }

    /// Reads what came since the last look.
    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::default();
        match self.try_look(&mut look) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                self.opened = None;
                look.more = false;
                look.watch = Some(None);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(error = %ErrorChain(&error), "cannot look at the journal; trying again");
                    look.alerts
                        .extend(now_system(ErrorChain(&error).to_string()));
                }
            }
        }
        look
    }

    fn try_look(&mut self, look: &mut Look) -> Result<(), LookError> {
        let folders = folders(&self.dirs);
        let is_same = |opened: &Opened| opened.folders == folders;
        let came_or_went = if self.opened.as_ref().is_some_and(is_same) {
            self.take_changes()?
        } else {
            self.opened = None;
            if !self.open(folders, look)? {
                return Ok(());
            }
            true
        };
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let journal = &mut opened.journal;
        // Files are looked at one after the other: only what was there before this look is there in all of them.
        let sure = journal.last_numbers().map_err(LookError::Read)?;
        journal.refresh().map_err(LookError::Follow)?;
        let mut files = facts(journal);
        if !std::mem::replace(&mut self.has_begun, true) {
            // What happened before anybody looked is history.
            self.progress.skip_to(&sure, &files);
            look.must_write = true;
            let numbers = self.progress.numbers();
            journal.seek_numbers(&numbers).map_err(LookError::Read)?;
        } else if came_or_went {
            let mut missing = self.progress.missing(&files);
            // A file that is being renamed can be overlooked, but hardly again and again.
            for _ in 0..RENAME_LOOKS {
                if missing.is_empty() {
                    break;
                }
                std::thread::sleep(RENAME_TIME);
                journal.refresh().map_err(LookError::Follow)?;
                files = facts(journal);
                missing = self.progress.missing(&files);
            }
            for missing in self.progress.give_up(missing, &files) {
                look.alerts.extend(now_system(missing.to_string()));
                look.must_write = true;
            }
        }
        self.progress.begin(sure);
        self.read(&files, look)
    }

    /// Takes note of what was appended; whether files came or went.
    fn take_changes(&mut self) -> Result<bool, LookError> {
        let Some(opened) = &mut self.opened else {
            return Ok(false);
        };
        let change = match opened.is_watched {
            true => opened.journal.process_changes(),
            false => opened.journal.refresh().map(|()| Change::Files),
        };
        Ok(change.map_err(LookError::Follow)? == Change::Files)
    }

    /// Opens the journal at the place; false when there is none.
    fn open(
        &mut self,
        folders: Vec<(PathBuf, (u64, u64))>,
        look: &mut Look,
    ) -> Result<bool, LookError> {
        look.watch = Some(None);
        let dirs: Vec<&Path> = self.dirs.iter().map(PathBuf::as_path).collect();
        let mut journal = match Journal::open_dirs(&dirs) {
            Ok(journal) => journal,
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                let missing = self.progress.missing(&[]);
                for missing in self.progress.give_up(missing, &[]) {
                    look.alerts.extend(now_system(missing.to_string()));
                    look.must_write = true;
                }
                // Whatever is there later came later.
                look.must_write |= !std::mem::replace(&mut self.has_begun, true);
                return Ok(false);
            }
            Err(error) => return Err(LookError::Open(error)),
        };
        journal.set_matches(self.rules.matches());
        let numbers = self.progress.numbers();
        journal.seek_numbers(&numbers).map_err(LookError::Read)?;
        let is_watched = match journal.watch() {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "the journal is looked at now and then only");
                false
            }
        };
        // What came between the first look and the watch is noticed too.
        journal.refresh().map_err(LookError::Follow)?;
        let watch = journal.watch_fd().filter(|_| is_watched);
        look.watch = Some(watch.and_then(|fd| fd.try_clone_to_owned().ok()));
        self.opened = Some(Opened {
            journal,
            folders,
            is_watched,
        });
        Ok(true)
    }

    fn read(&mut self, files: &[FileFacts], look: &mut Look) -> Result<(), LookError> {
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let journal = &mut opened.journal;
        for _ in 0..ENTRIES_MAX {
            let Some(entry) = journal.next_entry().map_err(LookError::Read)? else {
                self.progress.end(files);
                journal.release_memory();
                return Ok(());
            };
            let known = Known::of(&entry.cursor());
            if self.progress.is_known(&known) {
                continue;
            }
            let record =
                Record::read(&entry, self.rules.message_bytes()).map_err(LookError::Read)?;
            let alert = self.rules.classify(&record, entry.realtime(), &*self.units);
            self.progress.read(known, alert.is_some(), files);
            look.alerts.extend(alert);
            if look.alerts.len() >= ALERTS_MAX {
                break;
            }
        }
        look.more = true;
        Ok(())
    }
}

fn facts(journal: &Journal) -> Vec<FileFacts> {
    let fact = |file: &muster_journal::JournalFile| FileFacts {
        summary: file.summary(),
        lasting: !file.path().starts_with(IN_MEMORY),
    };
    journal.files().map(fact).collect()
}

/// The folders that there are, and those within them: a journal has one for each machine.
fn folders(dirs: &[PathBuf]) -> Vec<(PathBuf, (u64, u64))> {
    let mut found = Vec::new();
    let mut look_at = |path: PathBuf| {
        let metadata = std::fs::metadata(&path).ok().filter(|data| data.is_dir());
        let Some(metadata) = metadata else {
            return false;
        };
        found.push((path, (metadata.dev(), metadata.ino())));
        true
    };
    for dir in dirs {
        if look_at(dir.clone()) {
            let within = std::fs::read_dir(dir).into_iter().flatten().flatten();
            for entry in within.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                look_at(entry.path());
            }
        }
    }
    found.sort();
    found
}
