//! A folder of journal files: names, sizes, room.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_journal::{ArchivedFile as ArchivedHead, Id128, JournalFile, NotContinuable};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use thiserror::Error;

use crate::policy::budget::FileSystem;
use crate::policy::retention::ArchivedFile;

/// The file that is written to.
const ACTIVE: &str = "system.journal";
/// What a file is called while it is being copied.
const COPYING: &str = ".copying";

/// Why something in a folder of journal files failed.
#[derive(Debug, Error)]
#[error("cannot {operation} {}", path.display())]
pub struct FolderError {
    /// What was to be done.
    pub operation: &'static str,
    /// To which file or folder.
    pub path: PathBuf,
    /// What the system reported.
    #[source]
    pub source: io::Error,
}

/// Turns what a call reports into an error that says what was done to what.
fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// A folder of journal files.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder at a path; it need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder, and those above it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&self) -> Result<(), FolderError> {
        std::fs::create_dir_all(&self.path).map_err(failed("make the folder", &self.path))
    }

    /// The file that is written to.
    #[must_use]
    pub fn active(&self) -> PathBuf {
        self.path.join(ACTIVE)
    }

    /// Gives the active file the name of an archived one.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn archive_active(&self, head: &ArchivedHead) -> Result<PathBuf, FolderError> {
        self.rename_active(&archived_name(
            head.seqnum_id,
            head.head_seqnum,
            head.head_realtime,
        ))
    }

    /// Gives an active file that cannot be continued a name under which readers still find it.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_active_aside(&self, now_us: u64) -> Result<PathBuf, FolderError> {
        let random = Id128::random().map_err(failed("make a name for", &self.active()))?;
        let random = random.to_string();
        let suffix = random.get(..16).unwrap_or("0");
        self.rename_active(&format!("system@{now_us:016x}-{suffix}.journal~"))
    }

    /// Puts an active file out of the way that cannot be continued for this reason.
    ///
    /// # Errors
    /// If it can be neither renamed nor removed.
    pub fn clear_active(&self, reason: NotContinuable, now_us: u64) -> Result<(), FolderError> {
        match (reason, JournalFile::open(&self.active())) {
            // Nothing can be read from it, by nobody.
            (NotContinuable::NoHeader, _) => self.remove_active(),
            // Its writer was killed before it could give the file its name.
            (NotContinuable::Archived, Ok(file)) => {
                let summary = file.summary();
                let name = archived_name(summary.seqnum_id, summary.seqnums.0, summary.realtime.0);
                self.rename_active(&name).map(drop)
            }
            _ => self.set_active_aside(now_us).map(drop),
        }
    }

    fn rename_active(&self, name: &str) -> Result<PathBuf, FolderError> {
        let target = self.path.join(name);
        std::fs::rename(self.active(), &target).map_err(failed("rename", &self.active()))?;
        Ok(target)
    }

    /// Removes the active file, which has no entry.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn remove_active(&self) -> Result<(), FolderError> {
        self.remove(ACTIVE)
    }

    /// Removes a file; one that is gone already is fine.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// The files that nobody writes to. A folder that is not there has none.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn archived(&self) -> Result<Vec<ArchivedFile>, FolderError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read the folder", &self.path)(error)),
        };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file that goes away meanwhile is not counted.
            let Ok(meta) = entry.metadata() else { continue };
            if is_archived(&name) && meta.is_file() {
                files.push(ArchivedFile {
                    name: name.into(),
                    bytes: meta.blocks() * 512,
                    newest_us: modified_us(&meta),
                });
            }
        }
        Ok(files)
    }

    /// The file system that the folder is on.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn file_system(&self) -> Result<FileSystem, FolderError> {
        let stat = rustix::fs::statvfs(&self.path)
            .map_err(|error| failed("look at the file system of", &self.path)(error.into()))?;
        Ok(FileSystem {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    /// Moves an archived file into another folder, on another file system. Killed in the middle, it can
    /// be called again.
    ///
    /// # Errors
    /// If it cannot be copied or removed.
    pub fn move_to(&self, name: &str, target: &Folder) -> Result<(), FolderError> {
        let from = self.path.join(name);
        let copy = target.path.join(format!("{name}{COPYING}"));
        let to = target.path.join(name);
        std::fs::copy(&from, &copy).map_err(failed("copy", &from))?;
        let file = std::fs::File::open(&copy).map_err(failed("open", &copy))?;
        if let Ok(meta) = std::fs::metadata(&from) {
            keep_times(&copy, &meta).map_err(failed("set the times of", &copy))?;
        }
        file.sync_all().map_err(failed("sync", &copy))?;
        std::fs::rename(&copy, &to).map_err(failed("rename", &copy))?;
        self.remove(name)
    }

    /// Removes copies that were begun and not finished.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_half_copies(&self) -> Result<(), FolderError> {
        for entry in std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            if let Some(name) = name.to_str().filter(|name| name.ends_with(COPYING)) {
                self.remove(name)?;
            }
        }
        Ok(())
    }
}

/// The name by which readers know the numbers and the time of the first entry.
fn archived_name(source: Id128, first_number: u64, first_us: u64) -> String {
    format!("system@{source}-{first_number:016x}-{first_us:016x}.journal")
}

/// journald's own archives count as well: limits are for the folder.
fn is_archived(name: &str) -> bool {
    name.contains('@') && (name.ends_with(".journal") || name.ends_with(".journal~"))
}

fn modified_us(meta: &std::fs::Metadata) -> u64 {
    let seconds = u64::try_from(meta.mtime()).unwrap_or(0);
    let micros = u64::try_from(meta.mtime_nsec()).unwrap_or(0) / 1000;
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

fn keep_times(path: &Path, meta: &std::fs::Metadata) -> io::Result<()> {
    let stamp = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: stamp(meta.atime(), meta.atime_nsec()),
        last_modification: stamp(meta.mtime(), meta.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(dir.path().join("journal/id"));
        (dir, folder)
    }

    #[test]
    fn only_archived_files_are_listed() {
        let (_dir, folder) = folder();
        assert_eq!(folder.archived().expect("none"), []);
        folder.make().expect("made");
        for name in [
            "system.journal",
            "system@1-2-3.journal",
            "user-1@4.journal",
            "x.journal~",
            "a@b.txt",
            "system@5-6.journal~",
        ] {
            std::fs::write(folder.path().join(name), name).expect("written");
        }
        let mut names: Vec<_> = folder
            .archived()
            .expect("files")
            .into_iter()
            .map(|file| file.name)
            .collect();
        names.sort();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        assert_eq!(
            names,
            [
                "system@1-2-3.journal",
                "system@5-6.journal~",
                "user-1@4.journal"
            ]
        );
        assert!(folder.file_system().expect("a file system").total > 0);
    }

    #[test]
    fn a_file_moves_with_its_times_and_half_copies_go() {
        let (_dir, from) = folder();
        let (_other, to) = folder();
        from.make().expect("made");
        to.make().expect("made");
        std::fs::write(from.path().join("system@1.journal"), b"content").expect("written");
        std::fs::write(to.path().join("system@0.journal.copying"), b"half").expect("written");
        let before = from.archived().expect("files");
        from.move_to("system@1.journal", &to).expect("moved");
        to.remove_half_copies().expect("removed");
        assert_eq!(from.archived().expect("none"), []);
        let after = to.archived().expect("files");
        assert_eq!(after.len(), 1);
        assert_eq!(after[0].newest_us, before[0].newest_us);
        assert_eq!(
            std::fs::read(to.path().join("system@1.journal")).expect("a file"),
            b"content"
        );
    }
}
