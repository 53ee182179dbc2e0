//! Which files there are, how old they are, and how much they take.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::OpenDirError;
use crate::file::{FileSummary, JournalFile};
use crate::format::Id128;

/// What a file's name says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `system.journal`: being written.
    Active,
    /// `system@...journal`: rotated.
    Archived,
    /// `system@...journal~`: left by a writer that could not close it.
    SetAside,
}

impl FileKind {
    /// None for names that are not those of journal files.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if name.ends_with(".journal~") {
            return Some(Self::SetAside);
        }
        let stem = name.strip_suffix(".journal")?;
        Some(if stem.contains('@') {
            Self::Archived
        } else {
            Self::Active
        })
    }
}

/// A journal file in a directory.
#[derive(Debug, Clone)]
pub struct JournalFileInfo {
    /// The file.
    pub path: PathBuf,
    /// What its name says about it.
    pub kind: FileKind,
    /// Bytes that it takes on disk.
    pub disk_usage: u64,
    /// What its header says; none if it cannot be read.
    pub summary: Option<FileSummary>,
}

/// The journal files of a directory, oldest first; unreadable ones before all others.
///
/// # Errors
/// When the directory cannot be listed. Files that vanish meanwhile are left out.
pub fn list_files(dir: &Path) -> Result<Vec<JournalFileInfo>, OpenDirError> {
    let mut files = Vec::new();
    for (path, kind) in named_files(dir)? {
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let summary = JournalFile::open(&path).ok().map(|file| file.summary());
        files.push(JournalFileInfo {
            path,
            kind,
            disk_usage: metadata.blocks() * 512,
            summary,
        });
    }
    files.sort_by_cached_key(|file| {
        (
            file.summary.map(|summary| summary.realtime),
            file.path.clone(),
        )
    });
    Ok(files)
}

/// Bytes that the journal files of a directory take on disk.
///
/// # Errors
/// When the directory cannot be listed.
pub fn disk_usage(dir: &Path) -> Result<u64, OpenDirError> {
    let files = named_files(dir)?;
    Ok(files
        .iter()
        .filter_map(|(path, _)| fs::metadata(path).ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum())
}

fn named_files(dir: &Path) -> Result<Vec<(PathBuf, FileKind)>, OpenDirError> {
    let failed = |source| OpenDirError {
        path: dir.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for item in fs::read_dir(dir).map_err(failed)? {
        let path = item.map_err(failed)?.path();
        let kind = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(FileKind::of);
        if let Some(kind) = kind {
            files.push((path, kind));
        }
    }
    files.sort();
    Ok(files)
}

/// The directories in which a reader looks: the one named, and those of machines in it.
pub(super) fn journal_dirs(dir: &Path) -> Result<Vec<PathBuf>, OpenDirError> {
    let failed = |source| OpenDirError {
        path: dir.to_owned(),
        source,
    };
    let mut dirs = vec![dir.to_owned()];
    for item in fs::read_dir(dir).map_err(failed)? {
        let path = item.map_err(failed)?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.parse::<Id128>().is_ok() && path.is_dir() {
            dirs.push(path);
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// All files that a reader of `dir` reads.
pub(super) fn journal_paths(dir: &Path) -> Result<Vec<PathBuf>, OpenDirError> {
    let mut paths = Vec::new();
    for dir in journal_dirs(dir)? {
        paths.extend(named_files(&dir)?.into_iter().map(|(path, _)| path));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        assert_eq!(FileKind::of("system.journal"), Some(FileKind::Active));
        assert_eq!(
            FileKind::of("system@00-01-02.journal"),
            Some(FileKind::Archived)
        );
        assert_eq!(
            FileKind::of("system@00-01.journal~"),
            Some(FileKind::SetAside)
        );
        assert_eq!(FileKind::of("system.journal.tmp"), None);
        assert_eq!(FileKind::of("fss"), None);
    }
}
