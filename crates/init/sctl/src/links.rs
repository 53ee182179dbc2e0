//! Carrying out plans: the only module that changes files.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use muster_unit_file::fs::{FsError, RealFs};
use muster_unit_file::install::Change;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

/// Names tried for the link that replaces another, and times that a folder is made again.
const MAX_ATTEMPTS: u32 = 100;

/// Why a change cannot be made.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    /// The system refuses.
    #[error("Failed to {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The path leads nowhere.
    #[error("Failed to find the place of {path}")]
    Place {
        /// As the system's units see it.
        path: Box<str>,
        /// Why.
        #[source]
        source: FsError,
    },
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    move |source| LinkError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// Carries changes out one by one, in their order, telling `done` about each. What is so already is
/// passed over in silence. Everything that was done is on disk when this returns.
///
/// # Errors
/// The first change that cannot be made; the ones before it stay.
pub(crate) fn carry_out(
    fs: &RealFs,
    changes: &[Change],
    done: impl FnMut(&Change),
) -> Result<(), LinkError> {
    let mut changed = ChangedFolders::default();
    let made = make_changes(fs, changes, &mut changed, done);
    // Also after a failure: what was done before it has been announced.
    let synced = changed.sync();
    made.and(synced)
}

fn make_changes(
    fs: &RealFs,
    changes: &[Change],
    changed: &mut ChangedFolders,
    mut done: impl FnMut(&Change),
) -> Result<(), LinkError> {
    let mut changes = changes.iter().peekable();
    while let Some(change) = changes.next() {
        match change {
            Change::Remove { path } => {
                let replacement = changes.next_if(
                    |next| matches!(next, Change::Link { path: same, .. } if same == path),
                );
                if let Some(link @ Change::Link { target, .. }) = replacement {
                    make_link(&place(fs, path)?, target, true, changed)?;
                    done(change);
                    done(link);
                } else if remove(&place(fs, path)?, changed)? {
                    done(change);
                }
            }
            Change::Link { path, target } => {
                if make_link(&place(fs, path)?, target, false, changed)? {
                    done(change);
                }
            }
            Change::RemoveFolder { path } => {
                remove_folder(path, &place(fs, path)?, changed, &mut done)?;
            }
        }
    }
    Ok(())
}

/// Folders whose entries were changed. Many links often go into one folder, so each is synced once.
#[derive(Debug, Default)]
struct ChangedFolders(BTreeSet<PathBuf>);

impl ChangedFolders {
    fn add(&mut self, folder: &Path) {
        self.0.insert(folder.to_owned());
    }

    fn sync(self) -> Result<(), LinkError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for folder in self.0 {
            let synced =
                rustix::fs::open(&folder, flags, Mode::empty()).and_then(rustix::fs::fsync);
            match synced {
                // A folder may be gone again. Not every file system can sync folders.
                Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
                Err(error) => return Err(failed("sync folder", &folder)(error.into())),
            }
        }
        Ok(())
    }
}

fn place(fs: &RealFs, path: &str) -> Result<PathBuf, LinkError> {
    fs.real_path(path).map_err(|source| LinkError::Place {
        path: path.into(),
        source,
    })
}

/// Makes a link and the folders above it. `true` if there was something to do.
fn make_link(
    path: &Path,
    target: &str,
    replace: bool,
    changed: &mut ChangedFolders,
) -> Result<bool, LinkError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match symlink_in_folder(target, path, folder, changed)? {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match std::fs::read_link(path) {
                Ok(existing) if existing == Path::new(target) => return Ok(false),
                // Only a link is ever replaced, never a file that someone wrote.
                Ok(_) if replace => replace_link(path, folder, target)?,
                _ => return Err(failed("create symlink", path)(error)),
            }
        }
        Err(error) => return Err(failed("create symlink", path)(error)),
    }
    changed.add(folder);
    Ok(true)
}

/// Makes a link in a folder that is made if need be. Whoever removes the last other link at the same
/// moment may remove the folder too, so it is made again a few times.
fn symlink_in_folder(
    target: &str,
    path: &Path,
    folder: &Path,
    changed: &mut ChangedFolders,
) -> Result<io::Result<()>, LinkError> {
    let mut made = Err(io::Error::from(io::ErrorKind::NotFound));
    for _ in 0..MAX_ATTEMPTS {
        if let Err(error) = create_folders(folder, changed) {
            if is_passing(&error, folder) {
                continue;
            }
            return Err(failed("create folder", folder)(error));
        }
        made = symlink(target, path);
        match &made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    Ok(made)
}

/// Whether a folder could not be made only because someone made and removed it, or one above it, at the same moment: it was there
/// when it was to be made, and gone when it was looked at.
fn is_passing(error: &io::Error, folder: &Path) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::AlreadyExists => match std::fs::metadata(folder) {
            Ok(found) => found.is_dir(),
            Err(looked) => looked.kind() == io::ErrorKind::NotFound,
        },
        _ => false,
    }
}

/// Makes a folder and those above it that are missing.
fn create_folders(folder: &Path, changed: &mut ChangedFolders) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|path| !path.exists());
    for path in missing {
        if let Some(above) = path.parent() {
            changed.add(above);
        }
    }
    std::fs::create_dir_all(folder)
}

/// Puts a new link over an old one, so that there is one at every moment.
fn replace_link(path: &Path, folder: &Path, target: &str) -> Result<(), LinkError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..MAX_ATTEMPTS {
        let temporary = folder.join(format!(".#{name}.{process}.{attempt}"));
        match symlink(target, &temporary) {
            Ok(()) => {
                return std::fs::rename(&temporary, path).map_err(|error| {
                    // The old link is still there; the new one must not stay beside it.
                    let _ = std::fs::remove_file(&temporary);
                    failed("replace symlink", path)(error)
                });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(failed("create symlink", &temporary)(error)),
        }
    }
    Err(failed("replace symlink", path)(last))
}

/// Removes a file or link, and the `.wants/` or similar folder that is empty then.
fn remove(path: &Path, changed: &mut ChangedFolders) -> Result<bool, LinkError> {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("remove", path)(error)),
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    changed.add(folder);
    let is_dependency_folder = folder.extension().is_some_and(|extension| {
        ["wants", "requires", "upholds"]
            .iter()
            .any(|kind| extension == *kind)
    });
    // Other links may be left in it; then it stays.
    if is_dependency_folder
        && std::fs::remove_dir(folder).is_ok()
        && let Some(above) = folder.parent()
    {
        changed.add(above);
    }
    Ok(true)
}

/// Removes a folder of drop-ins with what is in it, telling about every file.
fn remove_folder(
    name: &str,
    path: &Path,
    changed: &mut ChangedFolders,
    done: &mut impl FnMut(&Change),
) -> Result<(), LinkError> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("list", path)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed("list", path))?;
        let inner = entry.path();
        let kind = entry.file_type().map_err(failed("look at", &inner))?;
        let removed = if kind.is_dir() {
            std::fs::remove_dir_all(&inner)
        } else {
            std::fs::remove_file(&inner)
        };
        removed.map_err(failed("remove", &inner))?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        done(&Change::Remove { path: name.into() });
    }
    std::fs::remove_dir(path).map_err(failed("remove", path))?;
    changed.add(path.parent().unwrap_or(Path::new("/")));
    done(&Change::RemoveFolder { path: name.into() });
    Ok(())
}

#[cfg(test)]
mod tests;
