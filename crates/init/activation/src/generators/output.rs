//! The folders that generators write to, and their replacement.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use thiserror::Error;

use super::RunGeneratorsError;

/// Generators' files are small; a larger one is not compared with the old.
const MAX_COMPARED: u64 = 1 << 20;

/// Where generators' files end up, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFolders {
    /// Between the administrator's and the distribution's units.
    pub normal: PathBuf,
    /// Before everything else.
    pub early: PathBuf,
    /// After everything else.
    pub late: PathBuf,
}

/// A folder that could not be replaced by what the generators wrote.
#[derive(Debug, Error)]
#[error("cannot replace the generators' folder {}", path.display())]
pub struct ReplaceOutputError {
    /// The folder.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// New folders beside the old; removed when dropped.
#[derive(Debug)]
pub(super) struct Staging {
    /// The new folder and the place for it: normal, early, late.
    folders: [(PathBuf, PathBuf); 3],
}

impl Staging {
    /// Makes the new folders, empty.
    pub(super) fn prepare(output: &OutputFolders) -> Result<Self, RunGeneratorsError> {
        let pair = |place: &PathBuf| {
            let mut name = OsString::from(".");
            name.push(place.file_name().unwrap_or("generator".as_ref()));
            name.push(".new");
            (place.with_file_name(name), place.clone())
        };
        let folders = [&output.normal, &output.early, &output.late].map(pair);
        let staging = Self { folders };
        for (new, _) in &staging.folders {
            let made = remove(new).and_then(|()| {
                let mut builder = fs::DirBuilder::new();
                builder.recursive(true).mode(0o755).create(new)
            });
            made.map_err(|source| RunGeneratorsError::Prepare {
                path: new.clone(),
                source,
            })?;
        }
        Ok(staging)
    }

    /// What each generator is called with.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|(new, _)| new.as_path())
    }

    /// Puts the new folders in place of the old.
    pub(super) fn replace(&self) -> Result<(), ReplaceOutputError> {
        for (new, place) in &self.folders {
            settle(new, new, place)
                .and_then(|()| exchange(new, place))
                .map_err(|source| ReplaceOutputError {
                    path: place.clone(),
                    source,
                })?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for (new, _) in &self.folders {
            let _ = remove(new);
        }
    }
}

/// Makes what was written in `new` right for its final place: links to the folder itself point to where it will be, and
/// files that are as before become the ones from before.
fn settle(folder: &Path, new: &Path, place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?;
        if kind.is_dir() {
            settle(&path, new, place)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            if let Ok(below) = target.strip_prefix(new) {
                fs::remove_file(&path)?;
                symlink(place.join(below), &path)?;
            }
        } else if let Ok(below) = path.strip_prefix(new) {
            keep_if_same(&path, &place.join(below));
        }
    }
    Ok(())
}

/// Replaces a file by the old one if they are the same. That it cannot be done costs a reload some time and no more.
fn keep_if_same(new: &Path, old: &Path) {
    let same = || -> io::Result<bool> {
        let (one, other) = (new.symlink_metadata()?, old.symlink_metadata()?);
        Ok(one.is_file()
            && other.is_file()
            && one.len() == other.len()
            && one.len() <= MAX_COMPARED
            && one.mode() == other.mode()
            && fs::read(new)? == fs::read(old)?)
    };
    if same().unwrap_or(false) {
        let mut name = OsString::from(".kept-");
        name.push(new.file_name().unwrap_or_default());
        let link = new.with_file_name(name);
        if fs::hard_link(old, &link).is_ok() && fs::rename(&link, new).is_err() {
            let _ = fs::remove_file(&link);
        }
    }
}

/// One step for whoever looks at `place`: it has either the old or the new content.
fn exchange(new: &Path, place: &Path) -> io::Result<()> {
    if place.symlink_metadata().is_err() {
        return fs::rename(new, place);
    }
    rustix::fs::renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE)?;
    remove(new)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
